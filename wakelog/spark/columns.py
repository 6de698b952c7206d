"""The columns of the tables: names and Spark types.

    MESSAGE_COLUMNS   messages, with RocketMQ's names
    KAFKA_COLUMNS     messages, with the names of Spark's Kafka source: schemaMode=kafka
    DAMAGE_COLUMNS    parts of the log that no row can be made of: table=damage

Spark does not say to a Python source which columns a query uses. So a user names them, in the
option `columns` or as the schema of the read.

Source: the schema of rocketmq-externals/rocketmq-spark, whose names and types are kept but for
`properties`; Spark's Structured Streaming + Kafka guide.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final

from wakelog.spark.errors import OptionError

MAP_TYPE: Final = "map<string,string>"
HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"

MESSAGE_COLUMNS: Final[Mapping[str, str]] = {
    "topic": "string",
    "brokerName": "string",
    "queueId": "int",
    "queueOffset": "bigint",
    "msgId": "string",
    "offsetMsgId": "string",
    "tags": "string",
    "keys": "string",
    "flag": "int",
    "body": "binary",
    "properties": MAP_TYPE,
    "bornTimestamp": "timestamp",
    "storeTimestamp": "timestamp",
    "bornHost": "string",
    "storeHost": "string",
    "commitLogOffset": "bigint",
    "storeSize": "int",
    "sysFlag": "int",
    "bodyCRC": "int",
    "reconsumeTimes": "int",
    "preparedTransactionOffset": "bigint",
}

KAFKA_COLUMNS: Final[Mapping[str, str]] = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": HEADERS_TYPE,
}

DAMAGE_COLUMNS: Final[Mapping[str, str]] = {
    "brokerName": "string",
    "path": "string",
    "beginOffset": "bigint",
    "endOffset": "bigint",
    "reason": "string",
}

NULLABLE: Final = frozenset({"tags", "keys", "key"})
"""Columns that are null if a message has no such property; other columns are never null."""

_WORD_CHARACTERS_MIN: Final = 4


def chosen_columns(table: Mapping[str, str], wanted: Iterable[str]) -> dict[str, str]:
    """Return the wanted columns in their order, by the table's own spelling.

    Raises: OptionError for a name that the table does not have.
    """
    by_name = {name.lower(): name for name in table}
    chosen = {}
    for word in wanted:
        name = by_name.get(word.lower())
        if name is None:
            raise OptionError(
                f"no column {word!r}{nearest(word, table)}; there are {', '.join(table)}"
            )
        chosen[name] = table[name]
    return chosen


def nearest(word: str, names: Iterable[str]) -> str:
    """Return a hint such as `, did you mean 'topic'?`, or "" if no name is near.

    Without a similar name, it is the shortest name that contains the word.
    """
    by_name = {name.lower(): name for name in names}
    found = get_close_matches(word.lower(), by_name, n=1, cutoff=0.6)
    if not found and len(word) >= _WORD_CHARACTERS_MIN:
        found = sorted((name for name in by_name if word.lower() in name), key=len)
    return f", did you mean {by_name[found[0]]!r}?" if found else ""
