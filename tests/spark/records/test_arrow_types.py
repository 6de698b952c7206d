"""Every column that a table can have is one to Arrow, of the type that Spark gives it."""

from tests.spark.logs import KAFKA, MESSAGES
from wakelog.spark.columns import DAMAGE_COLUMNS, KAFKA_COLUMNS, MESSAGE_COLUMNS
from wakelog.spark.records.arrow_types import arrow_schema_of


def test_types_are_those_of_the_source() -> None:
    assert arrow_schema_of(MESSAGE_COLUMNS).equals(MESSAGES)
    assert arrow_schema_of(KAFKA_COLUMNS).equals(KAFKA)


def test_the_columns_keep_their_order() -> None:
    chosen = {"tags": "string", "topic": "string"}
    assert arrow_schema_of(chosen).names == ["tags", "topic"]
    assert arrow_schema_of(DAMAGE_COLUMNS).names == list(DAMAGE_COLUMNS)
