"""Reads one task over the wire: its range becomes record batches.

The event loop runs only while the reader waits for messages.

Invariants: a connection ends with its task, also after an error.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from wakelog.client.broker_calls import BrokerCalls
from wakelog.client.route import Connections
from wakelog.network.client import RemotingClient, make_client
from wakelog.spark.options import ReadOptions
from wakelog.spark.query import row_options
from wakelog.spark.records.record_walk import Damage
from wakelog.spark.records.rows import RowOptions, Rows
from wakelog.spark.remote.pulled_walk import PulledWalk, ScanPulled
from wakelog.spark.remote.puller import Puller, PullLimits
from wakelog.spark.remote.query import PulledPartition, PulledTask, remote_options
from wakelog.spark.tasks import arrow_schema
from wakelog.spark.worker_memory import freeze_after

_LOGGER: Final = logging.getLogger(__name__)


def read_pulled(
    options: ReadOptions, schema: StructType, partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one task, for a batch or a stream; none for Spark's own partition."""
    if not isinstance(partition, PulledPartition):
        return iter(())
    reader = PulledReader(options, row_options(options))
    return freeze_after(reader.batches(partition.planned, arrow_schema(schema)))


class PulledReader:
    """Reads tasks of one query."""

    def __init__(
        self, options: ReadOptions, rows: RowOptions, *, scan: ScanPulled | None = None
    ) -> None:
        """Keep the options; imports numba."""
        from wakelog.spark.remote.pulled_kernel import scan_pulled

        self._options = options
        self._rows = rows
        self._scan = scan or scan_pulled

    def batches(
        self, task: PulledTask, schema: pa.Schema, client: RemotingClient | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task. Raises: DataLost, ClientError."""
        with asyncio.Runner() as runner:
            wire = remote_options(self._options)
            own = client or make_client(wire.credentials, wire.tls)
            try:
                yield from self._batches(runner, own, task, schema)
            finally:
                runner.run(own.close())

    def _batches(
        self, runner: asyncio.Runner, client: Connections, task: PulledTask, schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        walk = PulledWalk(self._scan)
        queue = task.range.queue
        rows = Rows(walk, schema, task.selection, self._rows._replace(broker=queue.broker))
        puller = self._puller(client, task)
        try:
            while runner.run(puller.fill(walk)):
                yield from rows.batches()
                for damage in rows.taken_damage():
                    _warn_of(task, damage)
        finally:
            runner.run(puller.close())

    def _puller(self, client: Connections, task: PulledTask) -> Puller:
        wire = remote_options(self._options)

        def warn(queue_offset: int, reason: str) -> None:
            broker, topic, queue_id, _ = task.range.queue
            _LOGGER.warning(
                "offset %d of queue %d of %s at %s holds no message that can be read: %s",
                queue_offset,
                queue_id,
                topic,
                broker,
                reason,
            )

        limits = PullLimits(self._rows.batch_rows, self._rows.batch_bytes, self._options.pull_count)
        return Puller(
            BrokerCalls(client, wire),
            task.range,
            limits,
            expression=" || ".join(self._options.tags) or "*",
            fail_on_data_loss=self._options.fail_on_data_loss,
            report=warn,
        )


def _warn_of(task: PulledTask, damage: Damage) -> None:
    broker, topic, queue_id, _ = task.range.queue
    _LOGGER.warning(
        "queue %d of %s at %s: physical offsets %d to %d hold no message that can be read: %s",
        queue_id,
        topic,
        broker,
        damage.begin,
        damage.end,
        damage.reason,
    )
