"""`read_log`: a store's messages as an Arrow table, without a broker, Spark or Ray.

    polars.from_arrow(read_log("./store", "orders"))
    read_log("./store", "orders", columns=["tags", "body"]).to_pandas()

It shares plan, reader and columns with the Spark source. It needs the extra `arrow`.

Invariants: files are read only, also those of a store that a broker writes. Its end is found once.
A damaged part of the log is an error, or named in the log; none is left out in silence.
"""

import logging
import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal

from wakelog.client.arrow import load_pyarrow
from wakelog.client.errors import InvalidArgument
from wakelog.client.plain import not_accepted, plain_texts

if TYPE_CHECKING:
    import pyarrow

    from wakelog.spark.ray_data import LogReads, QueueOffsets
    from wakelog.spark.reader import Found

DAMAGED: Final = ("raise", "skip")

logger = logging.getLogger("wakelog.frames")


def read_log(
    store: str | os.PathLike[str],
    topics: str | Sequence[str],
    *,
    begin: "int | datetime | Literal['earliest'] | QueueOffsets" = "earliest",
    end: "int | datetime | Literal['latest'] | QueueOffsets" = "latest",
    tags: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    damaged: Literal["raise", "skip"] = "raise",
) -> "pyarrow.Table":
    """Return the messages of topics.

    store: the directory of a broker's store, or a copy of its commit log.
    begin, end: offsets [begin, end) of every queue, times of storing, or offsets by queue.
    tags: a message has one of these; none means any message.
    columns: some of those of docs/spark.md, in this order; None for all.
    damaged: what becomes of a part without a readable message: an error, or a line in the log.
    Raises: SourceError, InvalidArgument; ClientError without the package pyarrow.
    """
    return scan_log(
        store, topics, begin=begin, end=end, tags=tags, columns=columns, damaged=damaged
    ).read_all()


def scan_log(
    store: str | os.PathLike[str],
    topics: str | Sequence[str],
    *,
    begin: "int | datetime | Literal['earliest'] | QueueOffsets" = "earliest",
    end: "int | datetime | Literal['latest'] | QueueOffsets" = "latest",
    tags: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    damaged: Literal["raise", "skip"] = "raise",
) -> "pyarrow.RecordBatchReader":
    """Return what reads the same batch by batch, for a log that memory does not hold.

    Arguments are those of `read_log`. Raises: as it does, for damage where it is met.
    """
    pyarrow = load_pyarrow()
    from wakelog.spark.ray_data import LogReads

    if damaged not in DAMAGED:
        raise not_accepted("damaged", damaged, "'raise' or 'skip'")
    if not isinstance(store, str | os.PathLike) or not os.fspath(store):
        raise not_accepted("store", store, "the directory of a broker's store")
    options = {"verifyCrc": "true"}
    if wanted := plain_texts("tags", tags):
        options["subExpression"] = " || ".join(wanted)
    try:
        reads = LogReads(
            topics, store_path=store, start_offset=begin, end_offset=end, options=options
        )
    except ValueError as error:
        raise _of_own_arguments(error) from None
    found = reads.schema(None if columns is None else _plain_columns(columns))
    schema = pyarrow.schema([field.with_type(_in_milliseconds(field.type)) for field in found])
    batches = _batches(reads, found, schema, skips=damaged == "skip")
    return pyarrow.RecordBatchReader.from_batches(schema, batches)


def _of_own_arguments(error: ValueError) -> InvalidArgument:
    """Return the error about arguments of `LogReads` with the names that they have here."""
    if isinstance(error, InvalidArgument):
        cause, remedy = error.cause, error.remedy
    else:
        cause, _, remedy = str(error).partition(": ")
        remedy = f"{remedy[:1].upper()}{remedy[1:]}" or "Read [begin, end)"
    cause = cause.replace("start_offset", "begin").replace("end_offset", "end")
    return InvalidArgument(cause, remedy)


def _plain_columns(columns: object) -> list[str]:
    names = plain_texts("columns", columns)
    if not names:
        raise InvalidArgument("columns is empty: nothing would be read", "Give names, or None")
    return names


def _in_milliseconds(kind: "pyarrow.DataType") -> "pyarrow.DataType":
    """Return the type of the consumer's tables; a record has milliseconds."""
    pyarrow = load_pyarrow()
    return pyarrow.timestamp("ms", tz="UTC") if pyarrow.types.is_timestamp(kind) else kind


def _batches(
    reads: "LogReads", found: "pyarrow.Schema", schema: "pyarrow.Schema", *, skips: bool
) -> "Iterator[pyarrow.RecordBatch]":
    from wakelog.spark.errors import DataLost
    from wakelog.spark.reader import read_task

    damage: list[Found] = []
    try:
        plan = reads.plan()
    except DataLost as lost:
        raise DataLost(lost.what, "check the topics, and read from 'earliest' on") from None
    for planned in plan:
        for batch in read_task(reads.options, found, planned, damage.append):
            _report(damage, skips)
            yield batch.cast(schema)
        _report(damage, skips)


def _report(damage: "list[Found]", skips: bool) -> None:
    """Raise DataLost for damage, or write a line for each. It is forgotten."""
    from wakelog.spark.errors import DataLost

    for each in damage:
        begin, end, reason = each.damage
        what = f"{each.path}: physical offsets {begin} to {end} have no readable message: {reason}"
        if not skips:
            raise DataLost(what, "damaged='skip' reads the others")
        logger.warning("%s", what)
    damage.clear()
