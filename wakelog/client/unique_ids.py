"""The id that a producer gives each message: what 4.9.3's client calls the message id.

    width (bytes)  field
    4 or 16        address of the client
    2              process id
    4              a number of this set of ids, in Java the hash of a class loader
    4              milliseconds since the first of the month
    2              a counter

Tools read the time of sending from it, and the broker's index finds the message by it.

Invariants: two ids of one process differ, unless more than 65,536 are made in one millisecond.

Source: org.apache.rocketmq.common.message.MessageClientIDSetter (4.9.3).
"""

import os
import socket
import sys
import time
from array import array
from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Final

from wakelog.protocol.record import host_address

_COUNTER_MASK: Final = 0xFFFF


class UniqueIds:
    """Makes ids. One thread."""

    def __init__(
        self, address: str, *, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    ) -> None:
        """address: of the client, which others see in the ids."""
        process = (os.getpid() & 0xFFFF).to_bytes(2, "big")
        self._fixed = (host_address(address) + process + os.urandom(4)).hex().upper()
        self._now_ms = now_ms
        self._count = 0
        self._month_begin_ms = 0
        self._month_end_ms = 0

    def make(self) -> str:
        """Return the next id: 32 characters with a v4 address, 56 with a v6 one."""
        self._count = (self._count + 1) & _COUNTER_MASK
        return f"{self._begin()}{self._count:04X}"

    def make_many(self, count: int) -> list[str]:
        """Return the next ids, all of this millisecond."""
        begin = self._begin()
        first, self._count = self._count + 1, (self._count + count) & _COUNTER_MASK
        numbers = range(first, first + count)
        fits = numbers.stop <= _COUNTER_MASK + 1
        counters = array("H", numbers if fits else [n & _COUNTER_MASK for n in numbers])
        if sys.byteorder == "little":
            counters.byteswap()
        ends = counters.tobytes().hex(",", counters.itemsize).upper()
        return (begin + ends.replace(",", f",{begin}")).split(",") if ends else []

    def _begin(self) -> str:
        """Return what the ids of this millisecond have in common."""
        now_ms = self._now_ms()
        if now_ms >= self._month_end_ms:
            self._month_begin_ms, self._month_end_ms = _month(now_ms)
        span_ms = max(now_ms - self._month_begin_ms, 0)  # a clock may have been set back
        return f"{self._fixed}{span_ms:08X}"


def _month(now_ms: int) -> tuple[int, int]:
    """Return the begin of the local month, and of the next one."""
    begin = datetime.fromtimestamp(now_ms / 1000).replace(
        day=1, hour=0, minute=0, second=0, microsecond=0
    )
    is_december = begin.month == 12
    end = begin.replace(year=begin.year + is_december, month=1 if is_december else begin.month + 1)
    return int(begin.timestamp() * 1000), int(end.timestamp() * 1000)


@cache
def own_address() -> str:
    """Return the address that this machine sends from; without a network its loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # of no host (RFC 5737), and nothing is sent
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])
