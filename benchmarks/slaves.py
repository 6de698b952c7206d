"""Rows with a slave: sends that wait until it has them.

The slave has a store of its own on the same file system, and finds its master by the name server.
4.9.3 acknowledges what is in the page cache of its slave, and so does wakelog with
`haAckDurable=false`; by default what is synced on both.
"""

import time
from collections.abc import Callable

from benchmarks.sides import Side
from tests.compat.frames import RawConnection
from wakelog.protocol.codes import RequestCode, ResponseCode

FOLLOWED_SECONDS_MAX = 120.0
"""A slave of 4.9.3 says nothing for 5 s after it has connected, and it may connect twice."""

POLL_SECONDS = 0.02

TOPIC = "followed"
"""Of the sends that look whether a slave follows; the driver has a topic of its own."""

_FIELDS = {"a": "group", "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1"}
_SEND = {**_FIELDS, "h": "0", "i": "", "j": "0", "k": "false"}


def wait_until(is_true: Callable[[], bool], seconds_max: float, what: str) -> None:
    """Return once it is true. Raises: RuntimeError if it is not in time."""
    end = time.monotonic() + seconds_max
    while not is_true():
        if time.monotonic() > end:
            raise RuntimeError(f"not {what} within {seconds_max:.0f} s")
        time.sleep(POLL_SECONDS)


def wait_followed(side: Side) -> None:
    """Return once a send is acknowledged with its slave. Raises: RuntimeError."""
    with RawConnection(side.broker) as connection:
        wait_until(
            lambda: (
                connection.ask(RequestCode.SEND_MESSAGE_V2, _SEND, b"x").code
                == ResponseCode.SUCCESS
            ),
            FOLLOWED_SECONDS_MAX,
            "followed",
        )
