"""RetryPolicy: when a message is consumed again whose work failed, and when that is in vain."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from wakelog.client.errors import InvalidArgument
from wakelog.client.plain import positive_milliseconds, whole_number

LONGEST: Final = timedelta(hours=2)
"""The last of RocketMQ's levels of delay."""
DOUBLINGS_MAX: Final = 1_000
"""From there on the longest delay is reached for certain, or the delay does not grow."""


@dataclass(frozen=True)
class RetryPolicy:
    """Delays that grow, and an end.

    first: the delay before the second attempt. factor: how much longer each further one is.
    longest: none is longer. A broker takes its next longer level of delay.
    attempts_max: then the message is a dead letter; the broker's own end, 16 retries by default,
        may come first (`max_retries` of the Consumer).
    fatal: errors after which no further attempt helps: the message is a dead letter at once.
    """

    first: timedelta = timedelta(seconds=10)
    factor: float = 2.0
    longest: timedelta = LONGEST
    attempts_max: int = 16
    fatal: tuple[type[Exception], ...] = ()

    def __post_init__(self) -> None:
        """Check the values. Raises: InvalidArgument."""
        positive_milliseconds("first", self.first)
        positive_milliseconds("longest", self.longest)
        whole_number("attempts_max", self.attempts_max, 1)
        if not isinstance(self.factor, int | float) or not 1 <= self.factor < 1e6:
            raise InvalidArgument(f"factor is {self.factor!r}", "Give a number of 1 or more")
        if not isinstance(self.fatal, tuple) or not all(
            isinstance(each, type) and issubclass(each, Exception) for each in self.fatal
        ):
            raise InvalidArgument(f"fatal is {self.fatal!r}", "Give classes of errors in a tuple")

    def delay_after(self, error: Exception, reconsume_times: int) -> timedelta | None:
        """Return the delay before the next attempt, None if there is none.

        reconsume_times: how often the message had been consumed before this attempt.
        """
        if isinstance(error, self.fatal) or reconsume_times + 1 >= self.attempts_max:
            return None
        seconds, longest = self.first.total_seconds(), self.longest.total_seconds()
        for _ in range(min(reconsume_times, DOUBLINGS_MAX)):
            seconds *= self.factor
            if seconds >= longest:
                break
        return timedelta(seconds=min(seconds, longest))
