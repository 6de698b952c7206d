"""Errors are one tree, and the error of lost data says how to continue."""

import re

import pytest

from wakelog.client.errors import ARGUMENT_REMEDIES, ClientError, InvalidArgument
from wakelog.spark.errors import (
    WORDS,
    DataLost,
    OptionError,
    SourceError,
    StoreUnreadable,
    in_words_of_spark,
)
from wakelog.spark.option_texts import CONNECTION_OPTIONS


def test_errors_are_one_tree() -> None:
    assert all(issubclass(x, SourceError) for x in (DataLost, OptionError, StoreUnreadable))


def test_lost_data_says_how_to_go_on() -> None:
    assert str(DataLost("offset 3 has expired")).startswith("offset 3 has expired. ")
    assert "failOnDataLoss to false" in str(DataLost("x"))


@pytest.mark.parametrize("remedy", ARGUMENT_REMEDIES)
def test_a_remedy_of_the_client_names_options_of_spark(remedy: str) -> None:
    with pytest.raises(ClientError) as raised, in_words_of_spark():
        raise InvalidArgument("no", f"Check it, or {remedy}")
    assert remedy in WORDS and WORDS[remedy] in str(raised.value)
    assert not re.search(r"\w=|--|Tls\(", raised.value.remedy)


def test_a_remedy_names_options_that_spark_has() -> None:
    named = set(re.findall(r"\btls\.[\w.]+\w", " ".join(WORDS.values())))
    assert named and named <= CONNECTION_OPTIONS.keys()
