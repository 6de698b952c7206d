"""Whether a library is of the sources as they are."""

from pathlib import Path

from wakelog.compiled.source import is_current, source_digest


def test_a_library_is_current_while_its_sources_are_as_they_were(tmp_path: Path) -> None:
    source, library = tmp_path / "a.c", tmp_path / "library"
    source.write_text("int a;")
    assert not is_current(library, tmp_path)
    library.write_text(f"...{source_digest(tmp_path)}...")
    assert is_current(library, tmp_path)
    source.write_text("int b;")
    assert not is_current(library, tmp_path)


def test_the_digest_is_of_names_and_contents(tmp_path: Path) -> None:
    seen = {source_digest(tmp_path)}
    for name, content in (("a.c", "x"), ("a.c", "y"), ("b.h", ""), ("c.c", "")):
        (tmp_path / name).write_text(content)
        seen.add(source_digest(tmp_path))
    (tmp_path / "c.c").rename(tmp_path / "d.c")
    seen.add(source_digest(tmp_path))
    assert len(seen) == 6
    (tmp_path / "notes.md").write_text("x")
    assert source_digest(tmp_path) in seen
