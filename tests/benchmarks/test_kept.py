"""A result that is measured again takes the place of the older one."""

from pathlib import Path

import msgspec

from benchmarks.kept import keep, read_kept


class Figure(msgspec.Struct, frozen=True):
    name: str
    value: int

    @property
    def key(self) -> tuple[str]:
        return (self.name,)


def test_one_of_each_is_kept_a_line_in_order(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    assert read_kept(path, Figure) == []
    for figure in (Figure("b", 1), Figure("a", 2), Figure("b", 3)):
        keep(path, figure)
    assert read_kept(path, Figure) == [Figure("a", 2), Figure("b", 3)]
    assert path.read_text() == '[\n{"name":"a","value":2},\n{"name":"b","value":3}\n]\n'
