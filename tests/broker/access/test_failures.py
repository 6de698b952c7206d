"""How many failures an address has, and how much of it is remembered."""

from wakelog.broker.access.failures import (
    ADDRESSES_MAX,
    FAILURES_MAX,
    WINDOW_MS,
    AuthenticationFailures,
)

HOST, OTHER = "10.0.0.9", "10.0.0.8"


def test_failures_beyond_the_limit_count_until_the_minute_is_over() -> None:
    failures = AuthenticationFailures()
    assert not any(failures.add(HOST, 1_000) for _ in range(FAILURES_MAX))
    assert failures.add(HOST, 1_000) and failures.add(HOST, 1_000 + WINDOW_MS - 1)
    assert not failures.add(OTHER, 1_000)
    assert not failures.add(HOST, 1_000 + WINDOW_MS)


def test_a_clock_that_is_set_back_begins_a_new_minute() -> None:
    failures = AuthenticationFailures()
    for _ in range(FAILURES_MAX):
        failures.add(HOST, WINDOW_MS)
    assert not failures.add(HOST, WINDOW_MS - 1)


def test_one_owner_of_ipv6_addresses_counts_as_one() -> None:
    failures = AuthenticationFailures()
    for number in range(FAILURES_MAX):
        failures.add(f"2001:db8::{number:x}", 0)
    assert failures.add("2001:db8::ffff:1", 0)
    assert not failures.add("2001:db8:0:1::1", 0)
    assert len(failures) == 2


def test_a_flood_of_addresses_is_bounded_and_forgets_the_oldest() -> None:
    failures = AuthenticationFailures()
    for _ in range(FAILURES_MAX):
        failures.add(HOST, 0)
    for number in range(ADDRESSES_MAX):
        failures.add(f"10.1.{number >> 8}.{number & 0xFF}", 0)
    assert len(failures) == ADDRESSES_MAX
    assert not failures.add(HOST, 0)
