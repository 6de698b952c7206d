"""The names of the columns, and the error for an unknown one."""

import pytest

from wakelog.spark.columns import (
    DAMAGE_COLUMNS,
    KAFKA_COLUMNS,
    MESSAGE_COLUMNS,
    NULLABLE,
    chosen_columns,
    nearest,
)
from wakelog.spark.errors import OptionError


def test_columns_are_chosen_in_the_order_of_asking() -> None:
    assert list(chosen_columns(MESSAGE_COLUMNS, ["BODY", "topic"])) == ["body", "topic"]
    with pytest.raises(OptionError, match="there are brokerName, path"):
        chosen_columns(DAMAGE_COLUMNS, ["x"])


def test_nullable_columns_are_columns_of_a_table() -> None:
    assert {*MESSAGE_COLUMNS, *KAFKA_COLUMNS} >= NULLABLE


def test_the_hint_has_a_similar_name_only() -> None:
    assert nearest("tpoic", MESSAGE_COLUMNS) == ", did you mean 'topic'?"
    assert nearest("timestamp", MESSAGE_COLUMNS) == ", did you mean 'bornTimestamp'?"
    assert nearest("stamp", MESSAGE_COLUMNS) == ", did you mean 'bornTimestamp'?"
    for far in ("zzz", "sta", ""):
        assert nearest(far, MESSAGE_COLUMNS) == ""
