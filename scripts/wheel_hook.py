"""Puts the compiled library into a wheel, which then is one of this platform.

hatchling runs it when it builds or installs; `pyproject.toml` names it. Where there is no C
compiler, the wheel is one for every platform, and plain Python runs. An editable install builds the
library beside its sources.
"""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags


class LibraryHook(BuildHookInterface[Any]):
    """Builds the library before the files of a wheel are collected."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build it, and name the file and the tag of the wheel."""
        sys.path.insert(0, self.root)
        from wakelog.compiled.build import BuildFailed, build

        try:
            library = build()
        except BuildFailed as failure:
            self.app.display_warning(f"without the compiled library: {failure}")
            return
        if version == "editable":
            return
        build_data["force_include"][str(library)] = str(library.relative_to(Path(self.root)))
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{_platform()}"


def _platform() -> str:
    """Return this platform as a tag names it, without what a wheel promises of its libc."""
    names = (tag.platform for tag in sys_tags())
    return next(name for name in names if not name.startswith(("manylinux", "musllinux")))
