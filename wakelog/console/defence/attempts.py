"""How often a login may fail: by account and place, and by account over all places.

    place     the address that asks, or the browser, if it has logged in to that account before
    of each   PLACE_FAILURES_MAX of an account from one place within PLACE_MS
    of all    ACCOUNT_FAILURES_MAX of an account within ACCOUNT_MS, known browsers left out

So guessing is bounded also from many addresses. It bars no other account of the same address, and
no browser that is known.

Invariants: an attempt counts before its password is compared, so that those beside each other are
not more. A name without an account waits as one with an account does. Such names push out no count
of an account.
"""

from collections import OrderedDict
from typing import Final, NamedTuple

PLACE_FAILURES_MAX: Final = 10
PLACE_MS: Final = 60_000
PLACES_MAX: Final = 4_096
"""Pairs of account and place whose failures are counted; the oldest is forgotten."""
ACCOUNT_FAILURES_MAX: Final = 100
ACCOUNT_MS: Final = 3_600_000
ACCOUNTS_MAX: Final = 4_096


class _Window(NamedTuple):
    """Failures since a time; a clock that was set back begins another."""

    begun_ms: int
    failures: int


class _Windows:
    """Failures of keys, each within a time; the oldest key is forgotten."""

    def __init__(self, *, failures_max: int, span_ms: int, keys_max: int) -> None:
        self._failures_max, self._span_ms, self._keys_max = failures_max, span_ms, keys_max
        self._windows: OrderedDict[tuple[str, str], _Window] = OrderedDict()

    def _window(self, key: tuple[str, str], now_ms: int) -> _Window:
        found = self._windows.get(key, _Window(now_ms, 0))
        return found if 0 <= now_ms - found.begun_ms < self._span_ms else _Window(now_ms, 0)

    def left_ms(self, key: tuple[str, str], now_ms: int) -> int:
        """Return how long a key waits, 0 if it does not."""
        begun_ms, count = self._window(key, now_ms)
        return begun_ms + self._span_ms - now_ms if count >= self._failures_max else 0

    def change(self, key: tuple[str, str], now_ms: int, by: int) -> None:
        """Count a failure, or take one back."""
        begun_ms, count = self._window(key, now_ms)
        self._windows.pop(key, None)
        if count + by > 0:
            self._windows[key] = _Window(begun_ms, count + by)
        while len(self._windows) > self._keys_max:
            self._windows.popitem(last=False)

    @property
    def size(self) -> int:
        """How many keys are counted."""
        return len(self._windows)


class Attempt(NamedTuple):
    """Who tries to log in, and from where. is_known: the account, or the browser, is."""

    name: str
    place: str
    is_known_account: bool = True
    is_known_browser: bool = False


class LoginAttempts:
    """See the module."""

    def __init__(self) -> None:
        """Nothing has failed yet."""
        self._places = _Windows(
            failures_max=PLACE_FAILURES_MAX, span_ms=PLACE_MS, keys_max=PLACES_MAX
        )
        self._accounts, self._other_names = (
            _Windows(failures_max=ACCOUNT_FAILURES_MAX, span_ms=ACCOUNT_MS, keys_max=ACCOUNTS_MAX)
            for _ in range(2)
        )

    @property
    def size(self) -> int:
        """How many pairs of account and place are counted."""
        return self._places.size

    def begin(self, attempt: Attempt, now_ms: int) -> int:
        """Count an attempt as one that fails; return 0, or for how many ms there is none."""
        wait_ms = self._places.left_ms((attempt.name, attempt.place), now_ms)
        if not attempt.is_known_browser:
            wait_ms = max(wait_ms, self._names(attempt).left_ms((attempt.name, ""), now_ms))
        if not wait_ms:
            self._change(attempt, now_ms, 1)
        return wait_ms

    def forget(self, attempt: Attempt, now_ms: int) -> None:
        """Count an attempt no more: its password was right, or it was not compared."""
        self._change(attempt, now_ms, -1)

    def _change(self, attempt: Attempt, now_ms: int, by: int) -> None:
        self._places.change((attempt.name, attempt.place), now_ms, by)
        if not attempt.is_known_browser:
            self._names(attempt).change((attempt.name, ""), now_ms, by)

    def _names(self, attempt: Attempt) -> _Windows:
        return self._accounts if attempt.is_known_account else self._other_names
