"""A result that is measured again takes the place of the older one."""

import json
from pathlib import Path

import msgspec

from benchmarks.kept import keep, read_kept, row_lines


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


def test_a_document_has_a_line_for_each_row_side_and_figure() -> None:
    document = {
        "row": "consume",
        "void": [],
        "machine": {"cores": 2, "memory_gib": 23.5},
        "summary": {"cpu": {"median": 1}, "rate": {"median": [1, 2]}},
        "pairs": [{"wakelog": {"rate": 1}}, {"wakelog": {"rate": 2}}],
    }
    text = row_lines(document)
    assert json.loads(text) == document
    assert text.splitlines() == [
        "{",
        '"row": "consume",',
        '"void": [],',
        '"machine": {"cores":2,"memory_gib":23.5},',
        '"summary": {',
        '"cpu": {"median":1},',
        '"rate": {"median":[1,2]}',
        "},",
        '"pairs": [',
        '{"wakelog":{"rate":1}},',
        '{"wakelog":{"rate":2}}',
        "]",
        "}",
    ]
