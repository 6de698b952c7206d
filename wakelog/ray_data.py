"""Ray Data: `read_wakelog` and `write_wakelog`, in the manner of its functions for Kafka.

    dataset = read_wakelog("orders", store_path="./store")
    write_wakelog(dataset.select_columns(["body", "tags"]), "127.0.0.1:9876", "paid")

A row of a written Dataset is a message, and its columns are fields of `client.Message`. Each write
task has a producer of the client. Ray Data is in the extra `ray-data`.

Invariants: a task ends without an error only after a broker has acknowledged every row. Rows of a
task that Ray runs again are sent again.

Source: ray.data.Dataset.write_kafka (2.60) for the names of the arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Unpack

from wakelog.client import Message
from wakelog.client.errors import InvalidArgument
from wakelog.client.messages import OWN_PROPERTIES, SHARDING_KEY
from wakelog.client.options import Settings
from wakelog.client.plain import not_accepted, plain_text, plain_topic
from wakelog.client.sync import Producer
from wakelog.protocol.properties import DELAY, KEYS, TAGS
from wakelog.spark.ray_data import RayDataMissing, read_wakelog

if TYPE_CHECKING:
    import pyarrow
    from ray.data import Dataset

__all__ = ["COLUMNS", "RayDataMissing", "read_wakelog", "write_wakelog"]

COLUMNS: Final = ("body", "topic", "tags", "keys", "properties", "sharding_key", "flag")
"""What a Dataset may have; `body` it must have."""
GROUP: Final = "wakelog-ray-data"
_BY_PROPERTY: Final = {"tags": TAGS, "keys": KEYS, "sharding_key": SHARDING_KEY}
"""Columns whose values may be among the properties instead."""
MESSAGES_AT_ONCE: Final = 1_000
"""Rows that a task has as messages at the same time."""


def write_wakelog(
    dataset: Dataset,
    name_servers: str,
    topic: str = "",
    *,
    group: str = GROUP,
    ray_remote_args: Mapping[str, Any] | None = None,
    concurrency: int | None = None,
    **settings: Unpack[Settings],
) -> None:
    """Send each row as a message, and return when brokers have acknowledged all of them.

    topic: of rows without one. group: of the producers. settings: of a `Producer`.
    ray_remote_args, concurrency: of the write tasks, as `Dataset.write_datasink` has them.
    Raises: InvalidArgument, RayDataMissing; what Ray raises for a task that failed.
    """
    name_servers = plain_text("name_servers", name_servers, "HOST:PORT, a text")
    topic = plain_topic(topic, "topic") if topic else ""
    Producer(name_servers, group=group, **settings)  # checks them here, before any task runs
    sink = _datasink(Rows(name_servers, topic, group, settings))
    dataset.write_datasink(
        sink, ray_remote_args=dict(ray_remote_args or {}), concurrency=concurrency
    )


class Rows:
    """What write tasks do with rows. It does not use Ray, and can be pickled."""

    def __init__(
        self, name_servers: str, topic: str, group: str, settings: Mapping[str, Any]
    ) -> None:
        """Send nothing yet."""
        self.name_servers, self.topic, self.group = name_servers, topic, group
        self.settings = dict(settings)

    def check(self, names: Sequence[str]) -> None:
        """Check the columns of a Dataset. Raises: InvalidArgument."""
        if unknown := sorted(set(names) - set(COLUMNS)):
            cause = f"columns {', '.join(unknown)} are no part of a message"
            raise InvalidArgument(cause, f"Select some of {', '.join(COLUMNS)}")
        if "body" not in names:
            raise InvalidArgument("the Dataset has no column body", "Rename one: rename_columns")
        if not self.topic and "topic" not in names:
            raise InvalidArgument("rows have no topic", "Give topic=, or a column topic")

    def send(self, tables: Iterable[pyarrow.Table]) -> int:
        """Send all rows of a task; return how many. Raises: ClientError."""
        count = 0
        with Producer(self.name_servers, group=self.group, **self.settings) as producer:
            for table in tables:
                self.check(table.column_names)
                messages = self.messages(table)
                while some := list(islice(messages, MESSAGES_AT_ONCE)):
                    producer.send_many(some)
                    count += len(some)
        return count

    def messages(self, table: pyarrow.Table) -> Iterator[Message]:
        """Yield the messages of a table. Raises: InvalidArgument for a row that is none."""
        for batch in table.to_batches(max_chunksize=MESSAGES_AT_ONCE):
            for row in batch.to_pylist():
                yield self._message({name: value for name, value in row.items() if value})

    def _message(self, row: dict[str, Any]) -> Message:
        """Return a message. row: without empty values."""
        body = row.pop("body", None)
        if not isinstance(body, bytes | str):
            raise not_accepted("the body of a row", body, "bytes or a text, which is not empty")
        topic = row.pop("topic", "") or self.topic
        if not topic:
            raise InvalidArgument("a row has no topic", "Give topic=")
        # A message that was read has properties of RocketMQ's own; it gets them again.
        given = dict(row.pop("properties", ()))
        for field, name in _BY_PROPERTY.items():
            if value := given.pop(name, None):
                row.setdefault(field, value)
        left_out = OWN_PROPERTIES | {DELAY}
        properties = {
            name: value for name, value in given.items() if value and name not in left_out
        }
        return Message(topic, body, properties=properties or None, **row)


def _datasink(rows: Rows) -> Any:
    """Return the write as Ray accepts it. The class needs Ray Data, so this function defines it."""
    try:
        from ray.data.block import BlockAccessor
        from ray.data.datasource import Datasink
    except ImportError as error:
        raise RayDataMissing(
            f"Ray Data cannot be imported ({error}); install wakelog with its extra ray-data"
        ) from error

    class WakelogDatasink(Datasink[int]):
        """The write, for Ray."""

        def on_write_start(self, schema: pyarrow.Schema | None = None) -> None:
            if schema is not None:
                rows.check(schema.names)

        def write(self, blocks: Iterable[Any], ctx: Any) -> int:
            return rows.send(BlockAccessor.for_block(block).to_arrow() for block in blocks)

    return WakelogDatasink()
