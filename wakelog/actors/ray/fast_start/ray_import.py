"""How Ray is imported: without what no message of ours needs.

Ray prepares pydantic's types for being pickled, in every process and before its first call, if it
finds pydantic: 0.2 s of CPU and 10 MB. So its module for that comes without pydantic, and is filled
once something asks for more of it, as Ray Data does. A plug-in may import pydantic itself.

Source: ray/_common/pydantic_compat.py (2.60).
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any, Final

_COMPATIBILITY: Final = "ray._common.pydantic_compat"


def import_ray() -> None:
    """Import Ray and have it do without pydantic for now, unless that is imported already."""
    if "pydantic" in sys.modules or _COMPATIBILITY in sys.modules:
        importlib.import_module(_COMPATIBILITY)
        return
    sys.modules["pydantic"] = None  # type: ignore[assignment]
    try:
        module = importlib.import_module(_COMPATIBILITY)
    finally:
        del sys.modules["pydantic"]
    _fill_on_demand(module)


def _fill_on_demand(module: ModuleType) -> None:
    """Leave nothing in a module but the call that Ray makes early; have the rest imported."""

    def found(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        importlib.reload(module)
        return vars(module)[name]

    for name in [name for name in vars(module) if not name.startswith("__")]:
        delattr(module, name)
    vars(module)["register_pydantic_serializers"] = lambda context: None
    vars(module)["__getattr__"] = found
