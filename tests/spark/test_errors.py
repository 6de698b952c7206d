"""Errors are one tree, and the error of lost data says how to continue."""

from wakelog.spark.errors import DataLost, OptionError, SourceError, StoreUnreadable


def test_errors_are_one_tree() -> None:
    assert all(issubclass(x, SourceError) for x in (DataLost, OptionError, StoreUnreadable))


def test_lost_data_says_how_to_go_on() -> None:
    assert str(DataLost("offset 3 has expired")).startswith("offset 3 has expired. ")
    assert "failOnDataLoss to false" in str(DataLost("x"))
