"""Rows of a Dataset as messages: what a task sends and refuses, with and without Ray Data.

With Ray itself it runs in `tests/spark/test_ray_on_spark.py`.
"""

import pickle
import sys
from typing import Any

import pyarrow as pa
import pytest

from tests.tasks.brokers import broker
from wakelog.client import InvalidArgument, Message
from wakelog.ray_data import COLUMNS, RayDataMissing, Rows, _datasink, write_wakelog
from wakelog.testing import EmbeddedBroker

__all__ = ["broker"]
pytestmark = pytest.mark.slow

PLACE = "127.0.0.1:9"


def rows(name_server: str = PLACE, topic: str = "T") -> Rows:
    return Rows(name_server, topic, "g", {})


def message_of(**columns: Any) -> Message:
    table = pa.table({name: pa.array([value]) for name, value in columns.items()})
    [message] = rows().messages(table)
    return message


def test_a_row_is_a_message() -> None:
    assert message_of(body=b"1") == Message("T", b"1")
    everything: dict[str, Any] = {
        "topic": "U",
        "body": "paid",
        "tags": "a",
        "keys": ["k", "l"],
        "sharding_key": "s",
        "flag": 5,
    }
    assert message_of(**everything, properties={"p": "1"}) == Message(
        **everything, properties={"p": "1"}
    )
    assert (
        {*everything, "properties"}
        == set(COLUMNS)
        == set(Message._fields)
        - {
            "delay",
            "delay_level",
            "queue",
        }
    )


def test_what_was_read_leaves_its_old_properties_behind() -> None:
    kind = pa.map_(pa.string(), pa.string())
    pairs = {"TAGS": "a", "KEYS": "k l", "UNIQ_KEY": "7", "DELAY": "3", "WAIT": "true", "p": "1"}
    read = pa.table({"body": [b"1"], "properties": pa.array([list(pairs.items())], kind)})
    [message] = rows().messages(read)
    assert message == Message("T", b"1", tags="a", keys="k l", properties={"p": "1"})
    [message] = rows().messages(read.append_column("tags", pa.array(["b"])))
    assert message.tags == "b"
    empty = pa.table({"body": [b"1"], "tags": [None], "properties": pa.array([None], kind)})
    assert list(rows().messages(empty)) == [Message("T", b"1")]


@pytest.mark.parametrize("body", [None, b"", "", 5])
def test_a_row_without_a_body_is_refused(body: object) -> None:
    with pytest.raises(InvalidArgument, match="the body of a row"):
        message_of(body=body)


@pytest.mark.parametrize(
    ("names", "topic", "said"),
    [
        (["tags"], "T", "no column body"),
        (["body", "queueId", "msgId"], "T", "columns msgId, queueId are no part of a message"),
        (["body"], "", "no topic"),
    ],
)
def test_columns_are_checked_before_a_row_is_sent(names: list[str], topic: str, said: str) -> None:
    some = rows(topic=topic)
    with pytest.raises(InvalidArgument, match=said):
        some.check(names)


def test_a_row_without_a_topic_is_refused() -> None:
    table = pa.table({"body": ["x"], "topic": [None]})
    with pytest.raises(InvalidArgument, match="a row has no topic"):
        list(rows(topic="").messages(table))


def test_a_task_sends_all_rows_before_it_ends(broker: EmbeddedBroker) -> None:
    tables = [
        pa.table({"body": [b"%d" % n for n in range(begin, begin + 1_500)], "tags": ["t"] * 1_500})
        for begin in (0, 1_500)
    ]
    sink = pickle.loads(pickle.dumps(rows(broker.name_server, "numbers")))
    assert sink.send(tables) == 3_000
    found = broker.wait_for_messages("numbers", count=3_000)
    assert sorted(int(one.body) for one in found) == list(range(3_000))
    assert {one.tags for one in found} == {"t"}


@pytest.mark.long
def test_ray_gives_the_blocks_of_a_task_to_the_sink(broker: EmbeddedBroker) -> None:
    """Ray Data takes seconds to import."""
    import ray.data

    blocks = [pa.table({"body": ["1"]}), pa.table({"body": ["2", "3"]}).to_pandas()]
    sink = _datasink(rows(broker.name_server, "blocks"))
    assert sink.write(iter(blocks), None) == 3
    assert isinstance(sink, ray.data.Datasink)
    sink.on_write_start(blocks[0].schema)
    with pytest.raises(InvalidArgument, match="no column body"):
        sink.on_write_start(pa.schema([("tags", pa.string())]))
    found = broker.wait_for_messages("blocks", count=3)
    assert sorted(one.body for one in found) == [b"1", b"2", b"3"]


def test_arguments_are_checked_before_ray_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset: Any = None
    with pytest.raises(InvalidArgument, match="name_servers"):
        write_wakelog(dataset, 5, "T")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="no name of a topic"):
        write_wakelog(dataset, PLACE, "a topic")
    with pytest.raises(InvalidArgument, match="group"):
        write_wakelog(dataset, PLACE, "T", group="")
    monkeypatch.setitem(sys.modules, "ray.data", None)
    with pytest.raises(RayDataMissing, match="with its extra ray-data"):
        write_wakelog(dataset, PLACE, "T")
