"""Short slices of the processor for a thread: what the kernel keeps of the request."""

import ctypes
import os
import platform
import subprocess
import sys
import threading

import pytest

from wakelog.actors.broker import time_slice
from wakelog.actors.broker.time_slice import SLICE_MICROSECONDS, use_short_slices

NICE_MAX = 19


def slice_and_nice() -> tuple[int, int]:
    """Return the slice of this thread in µs, and its niceness, as sched_getattr says them."""
    found = ctypes.create_string_buffer(time_slice._ATTRIBUTES.size)
    number, _ = time_slice._CALLS[platform.machine()]
    assert ctypes.CDLL(None).syscall(number, 0, found, len(found), 0) == 0
    _, _, _, nice, _, runtime, _, _ = time_slice._ATTRIBUTES.unpack(found.raw)
    return runtime // 1_000, nice


def knows_slices() -> bool:
    """Return whether the kernel has slices of a thread's own."""
    release = platform.release().split(".")
    return platform.system() == "Linux" and (int(release[0]), int(release[1])) >= (6, 12)


@pytest.mark.skipif(not knows_slices(), reason="needs Linux 6.12")
def test_one_thread_has_short_slices_and_its_niceness() -> None:
    before, found = slice_and_nice(), list[tuple[int, int]]()

    def ask() -> None:
        assert use_short_slices()
        found.append(slice_and_nice())

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert found == [(SLICE_MICROSECONDS, before[1])]
    assert slice_and_nice() == before


def test_a_nice_process_stays_nice() -> None:
    program = (
        "import os; os.nice(5)\n"
        "from wakelog.actors.broker.time_slice import use_short_slices\n"
        "use_short_slices(); print(os.getpriority(os.PRIO_PROCESS, 0))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert int(done.stdout) == min(os.getpriority(os.PRIO_PROCESS, 0) + 5, NICE_MAX)


def test_where_there_is_no_such_call_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert not use_short_slices()
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    for numbers in ((9_999, 9_999), (time_slice._CALLS["x86_64"][0], 9_999)):
        monkeypatch.setattr(time_slice, "_CALLS", {"x86_64": numbers})
        assert not use_short_slices()


@pytest.mark.skipif(platform.system() != "Linux", reason="needs the policies of Linux")
def test_a_policy_that_was_chosen_stays() -> None:
    found = list[tuple[bool, int]]()

    def ask(policy: int) -> None:
        os.sched_setscheduler(0, policy, os.sched_param(0))
        found.append((use_short_slices(), os.sched_getscheduler(0)))

    policies = (os.SCHED_BATCH, os.SCHED_IDLE, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK)
    for policy in policies:
        thread = threading.Thread(target=ask, args=(policy,))
        thread.start()
        thread.join()
    assert found == list(zip((False, False, True), policies, strict=True))
