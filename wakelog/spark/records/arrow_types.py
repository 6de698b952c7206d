"""The columns of `columns.py` as an Arrow schema, for batches that are made without Spark.

Ray Data's blocks and the Parquet files of `side_files/` have this schema. Spark derives an equal
one from its own types (`tasks.py`).
"""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from wakelog.spark.columns import HEADERS_TYPE, MAP_TYPE

_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
ARROW_TYPES: Final = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    MAP_TYPE: pa.map_(pa.string(), pa.string()),
    HEADERS_TYPE: pa.list_(pa.field("element", _HEADER)),
}


def arrow_schema_of(columns: Mapping[str, str]) -> pa.Schema:
    """Return the schema of columns by name and Spark type."""
    return pa.schema([(name, ARROW_TYPES[kind]) for name, kind in columns.items()])
