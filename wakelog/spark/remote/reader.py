"""Reads one task over the wire: its range becomes record batches.

The event loop runs only while the reader waits for messages.

Invariants: a connection ends with its task, also after an error.
"""

import asyncio
import logging
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.types import StructType

from wakelog.client.broker_calls import BrokerCalls
from wakelog.network.client import make_client
from wakelog.spark.errors import in_words_of_spark
from wakelog.spark.options import ReadOptions
from wakelog.spark.records.rows import Rows
from wakelog.spark.remote.pulled_walk import PulledWalk
from wakelog.spark.remote.puller import Puller
from wakelog.spark.remote.query import PulledTask, remote_options
from wakelog.spark.tasks import arrow_schema
from wakelog.spark.worker_memory import freeze_after

_LOGGER: Final = logging.getLogger(__name__)


def read_pulled(
    options: ReadOptions, schema: StructType, task: PulledTask | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one task, for a batch or a stream.

    task: None for Spark's own partition of an empty plan.
    """
    if task is None:
        return iter(())
    return freeze_after(read_task(options, arrow_schema(schema), task))


def read_task(
    options: ReadOptions, schema: pa.Schema, task: PulledTask
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one task. Raises: DataLost, ClientError."""
    broker, topic, queue_id, _ = task.range.queue
    name = f"queue {queue_id} of {topic} at {broker}"

    def warn(queue_offset: int, reason: str) -> None:
        _LOGGER.warning("offset %d of %s has no readable message: %s", queue_offset, name, reason)

    walk = PulledWalk()
    rows = Rows(walk, schema, task.selection, options.rows._replace(broker=broker))
    client_options = remote_options(options)
    with in_words_of_spark(), asyncio.Runner() as runner:
        connections = make_client(client_options.credentials, client_options.tls)
        calls = BrokerCalls(connections, client_options)
        puller = Puller(calls, task.range, options, report=warn)
        try:
            while runner.run(puller.fill(walk)):
                yield from rows.batches()
                for begin, end, reason in rows.taken_damage():
                    _LOGGER.warning(
                        "%s: physical offsets %d to %d have no readable message: %s",
                        name,
                        begin,
                        end,
                        reason,
                    )
        finally:
            runner.run(puller.close())
            runner.run(connections.close())
