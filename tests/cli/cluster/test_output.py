"""Columns, as text and as values."""

from wakelog.cli.cluster.output import Columns, Moment


def test_columns_are_as_wide_as_their_cells() -> None:
    rows = [("a", 1234567, None, Moment(0)), ("longer", 2, ["x", "y"], Moment(0))]
    table = Columns(("name", "messages", "of", "last stored"), rows)
    assert list(table.lines()) == [
        "NAME     MESSAGES  OF   LAST STORED",
        "a       1,234,567  -    -",
        "longer          2  x,y  -",
    ]
    assert list(table.values())[1] == {
        "name": "longer", "messages": 2, "of": ["x", "y"], "lastStored": None
    }  # fmt: skip
    assert list(Columns(("name",), [], "none yet").lines()) == ["none yet"]
