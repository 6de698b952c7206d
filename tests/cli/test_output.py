"""Tables as text and as values."""

import json

from wakelog.cli.output import Table, show


def test_a_table_is_columns_or_objects() -> None:
    table = Table("%-6s|%04d|%5.2f", ["Broker Name", "QID", "InTPS(LOAD)"], [("b", 1, 2.5)])
    said: list[str] = []
    show(table, said.append, as_json=False)
    assert said == ["#Broker Name|#QID|#InTPS(LOAD)", "b     |0001| 2.50"]
    show(table, said.append, as_json=True)
    assert json.loads(said[-1]) == {"brokerName": "b", "qid": 1, "inTPS": 2.5}
