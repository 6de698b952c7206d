"""Limits of micro-batches that both kinds of stream share."""

import pytest
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)
from pyspark.sql.types import StructType

from wakelog.spark.options import ReadOptions
from wakelog.spark.remote.stream import RemoteStreamReader


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (ReadOptions(), ReadAllAvailable),
        (ReadOptions(offsets_per_trigger_max=5, bytes_per_trigger_max=5), ReadMaxRows),
        (ReadOptions(bytes_per_trigger_max=5, offsets_per_trigger_min=5), ReadMaxBytes),
        (ReadOptions(offsets_per_trigger_min=5), ReadMinRows),
    ],
)
def test_the_default_limit_is_one_of_the_options(
    options: ReadOptions, kind: type[ReadLimit]
) -> None:
    stream = RemoteStreamReader(options, StructType())
    assert type(stream.getDefaultReadLimit()) is kind
    assert stream.reportLatestOffset() is None
