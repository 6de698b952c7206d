"""The library is built by a compiler that is there, and a failure says what to do."""

import re
import shutil
import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from wakelog.compiled import build
from wakelog.compiled.build import BuildFailed
from wakelog.compiled.source import FOLDER, LIBRARY, is_current

COMPILERS = list(build.compilers())


def test_where_a_compiler_is_the_library_of_this_tree_is_current() -> None:
    assert is_current(LIBRARY) or not COMPILERS


def test_the_first_compiler_that_works_makes_a_library_that_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "compilers", lambda: iter([["false"], *COMPILERS]))
    library = tmp_path / LIBRARY.name
    if not COMPILERS:
        with pytest.raises(BuildFailed, match="false failed: 1"):
            build.build(library)
        return
    assert build.build(library) == library
    assert is_current(library)
    assert list(tmp_path.iterdir()) == [library]
    loader = ExtensionFileLoader("functions", str(library))
    spec = spec_from_file_location("functions", library, loader=loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    assert module.crc32(b"123456789") == 0xCBF43926


def test_a_current_library_is_not_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "is_current", lambda _: True)
    monkeypatch.setattr(build, "compilers", lambda: pytest.fail("asked for"))
    assert build.build(tmp_path / "library") == tmp_path / "library"


@pytest.mark.parametrize(
    ("commands", "message"),
    [
        ([], r"there is no C compiler: install cc, or `pip install ziglang`"),
        ([["no-such-compiler"]], r"no-such-compiler failed: .*No such file"),
        ([[sys.executable, "-c", "raise SystemExit('line 1')"]], r"failed: line 1"),
    ],
)
def test_a_failure_is_one_line_with_its_cause(
    commands: list[list[str]],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(build, "compilers", lambda: iter(commands))
    library = tmp_path / "library"
    with pytest.raises(BuildFailed, match=message):
        build.build(library)
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(build, "build", lambda: _build(library))
    assert build.main() == 1
    assert re.fullmatch(
        f"wakelog: the compiled library was not built: .*{message}.*\n", _err(capsys)
    )


_build = build.build


def _err(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err


def test_it_says_where_the_library_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build, "build", lambda: LIBRARY)
    assert build.main() == 0
    assert capsys.readouterr().out == f"{LIBRARY}\n"


def test_the_compiler_of_the_environment_comes_first_and_that_of_ziglang_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CC", "ccache cc -m64")
    monkeypatch.setattr(build, "find_spec", lambda name: name)
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    first, *others, last = build.compilers()
    assert first == ["ccache", "cc", "-m64"]
    assert others == [["/bin/cc"], ["/bin/gcc"], ["/bin/clang"]]
    assert last == [sys.executable, "-m", "ziglang", "cc"]


def test_the_sources_need_no_header_of_python() -> None:
    included = {
        name
        for path in (*FOLDER.glob("*.c"), *FOLDER.glob("*.h"))
        for name in re.findall(r"#include\s+<(\S+)>", path.read_text())
    }
    of_processor = {"cpuid.h", "immintrin.h"}
    assert included == {"stddef.h", "stdint.h", "string.h"} | of_processor
