"""How often a login may fail, and that one bars no other."""

from wakelog.console.defence.attempts import (
    ACCOUNT_FAILURES_MAX,
    ACCOUNT_MS,
    PLACE_FAILURES_MAX,
    PLACE_MS,
    PLACES_MAX,
    Attempt,
    LoginAttempts,
)


def fail(attempts: LoginAttempts, attempt: Attempt, count: int, now_ms: int = 0) -> None:
    for _ in range(count):
        assert attempts.begin(attempt, now_ms) == 0


def test_an_account_waits_at_one_place_for_the_rest_of_a_minute() -> None:
    attempts, here = LoginAttempts(), Attempt("ops", "10.0.0.7")
    fail(attempts, here, PLACE_FAILURES_MAX, 1_000)
    assert attempts.begin(here, 1_000) == PLACE_MS
    assert attempts.begin(here, PLACE_MS) == 1_000
    assert attempts.begin(here, PLACE_MS + 1_000) == 0


def test_one_account_bars_no_other_of_the_same_address() -> None:
    attempts = LoginAttempts()
    fail(attempts, Attempt("guest", "10.0.0.7"), PLACE_FAILURES_MAX)
    fail(attempts, Attempt("ops", "10.0.0.7"), PLACE_FAILURES_MAX)


def test_a_known_browser_is_barred_by_no_other_place() -> None:
    attempts = LoginAttempts()
    for number in range(ACCOUNT_FAILURES_MAX):
        fail(attempts, Attempt("ops", f"10.0.0.{number}"), 1)
    assert attempts.begin(Attempt("ops", "10.9.9.9"), 0) == ACCOUNT_MS
    known = Attempt("ops", "browser 1", is_known_browser=True)
    fail(attempts, known, PLACE_FAILURES_MAX)
    assert attempts.begin(known, 0) == PLACE_MS


def test_what_was_right_is_taken_back() -> None:
    attempts, here = LoginAttempts(), Attempt("ops", "10.0.0.7")
    for _ in range(ACCOUNT_FAILURES_MAX + 1):
        assert attempts.begin(here, 0) == 0
        attempts.forget(here, 0)
    assert attempts.size == 0


def test_a_name_without_an_account_waits_like_one_with_an_account() -> None:
    waits = {}
    for is_known in (True, False):
        attempts = LoginAttempts()
        for number in range(ACCOUNT_FAILURES_MAX):
            attempt = Attempt("ops", f"10.0.0.{number}", is_known_account=is_known)
            assert attempts.begin(attempt, 0) == 0
        waits[is_known] = attempts.begin(Attempt("ops", "10.9.9.9", is_known_account=is_known), 0)
    assert waits[True] == waits[False] == ACCOUNT_MS


def test_a_flood_of_names_is_bounded_and_leaves_the_bound_of_an_account() -> None:
    attempts = LoginAttempts()
    fail(attempts, Attempt("ops", "10.0.0.7"), PLACE_FAILURES_MAX)
    for number in range(PLACES_MAX):
        attempts.begin(Attempt(f"made-up-{number}", "10.0.0.7", is_known_account=False), 0)
    assert attempts.size == PLACES_MAX
    guessed = 0
    while attempts.begin(Attempt("ops", f"10.1.{guessed // 250}.{guessed % 250}"), 0) == 0:
        guessed += 1
    assert guessed == ACCOUNT_FAILURES_MAX - PLACE_FAILURES_MAX


def test_a_clock_that_was_set_back_bars_none_for_longer() -> None:
    attempts, here = LoginAttempts(), Attempt("ops", "10.0.0.7")
    fail(attempts, here, PLACE_FAILURES_MAX, 10_000_000)
    assert attempts.begin(here, 5_000) == 0
