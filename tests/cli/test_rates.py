"""Rates from two measurements of the counters."""

from typing import Any

from tests.cli.fakes import broker_values
from wakelog.cli.rates import BrokerRates, RateWatch


def statistics(**brokers: Any) -> dict[str, Any]:
    return {"brokers": brokers}


def test_a_rate_is_the_growth_between_two_measurements() -> None:
    watch = RateWatch(["a"])
    [first] = watch.measure(statistics(a=broker_values(100, 50, 3, 900, 700)), 10.0)
    assert first == BrokerRates("a", None, None, 3, 200)
    [second] = watch.measure(statistics(a=broker_values(300, 60, 4, 950, 950)), 12.0)
    assert second == BrokerRates("a", 100.0, 5.0, 4, 0)


def test_every_broker_has_a_row_in_order_even_if_it_is_silent() -> None:
    watch = RateWatch(["b", "a"])
    rows = watch.measure(statistics(a=broker_values()), 1.0)
    assert [(row.name, row.answers) for row in rows] == [("b", False), ("a", True)]
    assert [row.answers for row in watch.measure({}, 2.0)] == [False, False]


def test_a_broker_that_was_restarted_has_no_rates_at_first() -> None:
    watch = RateWatch(["a"])
    watch.measure(statistics(a=broker_values(100, 100)), 1.0)
    [row] = watch.measure(statistics(a=broker_values(10, 10)), 2.0)
    assert (row.in_per_second, row.answers) == (None, True)
    [row] = watch.measure(statistics(a=broker_values(30, 10)), 4.0)
    assert (row.in_per_second, row.out_per_second) == (10.0, 0.0)


def test_a_measurement_says_whether_a_value_changed() -> None:
    watch = RateWatch(["a"])
    changes = []
    for values in ({}, {}, {"a": broker_values()}, {"a": broker_values()}, {"a": broker_values(1)}):
        watch.measure(statistics(**values), 1.0)
        changes.append(watch.changed)
    assert changes == [False, False, True, False, True]


def test_a_lag_is_never_negative() -> None:
    [row] = RateWatch(["a"]).measure(statistics(a=broker_values(readable=5, dispatched=7)), 1.0)
    assert row.lag_bytes == 0


def test_a_broker_that_leaves_a_value_out_counts_as_silent() -> None:
    values = broker_values()
    del values["watermarks"]
    [row] = RateWatch(["a"]).measure(statistics(a=values), 1.0)
    assert not row.answers
