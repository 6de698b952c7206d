"""When memory is returned to the system."""

import asyncio
import gc
import re
import subprocess
import sys

import pytest

from tests.actors.bounded import on_loop
from wakelog.actors.transport import free_memory as free_memory_module
from wakelog.actors.transport.free_memory import FreeMemory, free_memory

MIB = 1 << 20


class Process:
    """A process whose memory is set here; a trim leaves what is used."""

    def __init__(self, resident_mib: int) -> None:
        self.resident_mib = self.used_mib = resident_mib
        self.trims_count = 0
        self.cleared_count = 0
        self.memory = FreeMemory(
            lambda: self.resident_mib * MIB, self._trim, clear_free_lists=self._clear
        )

    def _clear(self) -> None:
        self.cleared_count += 1

    def _trim(self) -> None:
        self.trims_count += 1
        self.resident_mib = self.used_mib

    def check_at(self, resident_mib: int, used_mib: int) -> bool:
        self.resident_mib, self.used_mib = resident_mib, used_mib
        is_due = self.memory.is_due()
        if is_due:
            self.memory.give_back()
        return is_due


def test_the_memory_of_a_peak_is_returned_after_it() -> None:
    process = Process(100)
    assert not process.check_at(500, 500), "it grows"
    assert process.check_at(500, 110)
    assert process.resident_mib == 110
    assert not process.check_at(110, 110)


def test_memory_that_is_used_later_than_a_check_is_returned_then() -> None:
    process = Process(100)
    process.check_at(500, 500)
    assert process.check_at(500, 500), "nothing was free yet"
    assert process.check_at(500, 105)
    assert process.resident_mib == 105


@pytest.mark.parametrize("resident_mib", [100, 110, 114])
def test_a_little_more_than_at_its_least_is_left_alone(resident_mib: int) -> None:
    process = Process(100)
    for _ in range(3):
        assert not process.check_at(resident_mib, 100)
    assert process.trims_count == 0


@pytest.mark.parametrize("start_mib", [60, 100, 1_000])
def test_a_fifth_more_than_before_a_peak_is_never_kept(start_mib: int) -> None:
    process = Process(start_mib)
    process.check_at(5 * start_mib, start_mib)
    kept_mib = start_mib * 6 // 5
    assert process.check_at(kept_mib, start_mib)
    assert process.resident_mib == start_mib


def test_a_little_traffic_after_a_peak_does_not_keep_its_memory() -> None:
    process = Process(100)
    process.check_at(500, 500)
    assert process.check_at(501, 110)


def test_dead_objects_are_freed_once_after_each_change() -> None:
    process = Process(100)
    process.check_at(500, 500)
    for used_mib, count in ((500, 1), (500, 1), (498, 1), (300, 1), (300, 2), (300, 2)):
        process.check_at(process.resident_mib, used_mib)
        assert process.cleared_count == count
    assert process.trims_count == 6


DEAD_OBJECTS = """
import gc, re, sys
from wakelog.actors.transport.free_memory import clear_free_lists

if sys.argv[1:]:
    gc.freeze()
frozen_count = gc.get_freeze_count()
alive = [(number, number) for number in range(5_000)]
del alive
clear_free_lists()
assert gc.get_freeze_count() == frozen_count
sys._debugmallocstats()
"""


@pytest.mark.process
@pytest.mark.parametrize("freezes", [False, True])
def test_python_keeps_no_dead_tuples_after_a_peak(freezes: bool) -> None:
    command = [sys.executable, "-c", DEAD_OBJECTS, *["frozen"] * freezes]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    [free_count] = re.findall(r"(\d+) free 2-sized PyTupleObjects", ended.stderr)
    assert int(free_count) < 200, "2,000 are kept without"


def test_many_objects_beside_frozen_ones_are_not_visited(monkeypatch: pytest.MonkeyPatch) -> None:
    collected: list[object] = []
    monkeypatch.setattr(gc, "collect", lambda *generation: collected.append(generation))
    monkeypatch.setattr(gc, "get_freeze_count", lambda: 1)
    monkeypatch.setattr(free_memory_module, "VISITED_MAX", len(gc.get_objects()) * 2)
    free_memory_module.clear_free_lists()
    assert collected == [(1,), ()]
    monkeypatch.setattr(free_memory_module, "VISITED_MAX", 10)
    free_memory_module.clear_free_lists()
    assert collected == [(1,), (), (1,)]


def test_this_process_can_be_asked() -> None:
    memory = free_memory()
    assert memory.is_due() is False
    memory.give_back()


PEAK_OF_A_THREAD = """
import asyncio, ctypes, threading
from wakelog.actors.transport.free_memory import _resident_bytes, free_memory

memory, mib = free_memory(), 1 << 20
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
library.free.argtypes = [ctypes.c_void_p]
library.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
is_over, may_end = threading.Event(), threading.Event()


def block(size_bytes):
    address = library.malloc(size_bytes)
    library.memset(address, 1, size_bytes)
    return address


def work():
    library.free(block(16 * mib))  # the largest request
    blocks = [block(3 * mib) for _ in range(8)]
    while blocks:
        library.free(blocks.pop())
    is_over.set()
    may_end.wait()


async def begin():
    memory.begin()


asyncio.run(begin())
before_bytes = _resident_bytes()
thread = threading.Thread(target=work)
thread.start()
is_over.wait()
memory.give_back()
print((_resident_bytes() - before_bytes) // mib)
may_end.set()
thread.join()
"""


@pytest.mark.process
def test_a_thread_does_not_keep_what_is_free_behind_its_last_block() -> None:
    command = [sys.executable, "-c", PEAK_OF_A_THREAD]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(ended.stdout) <= free_memory_module.LAST_FREE_BYTES_MAX // MIB


@on_loop
async def test_checks_come_by_time_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_memory_module, "CHECK_SECONDS", 0.001)
    resident_mib = 100
    returned = asyncio.Event()
    loop = asyncio.get_running_loop()

    def trim() -> None:
        nonlocal resident_mib
        resident_mib = 100
        loop.call_soon_threadsafe(returned.set)

    memory = FreeMemory(lambda: resident_mib * MIB, trim)
    resident_mib = 500
    assert not memory.is_due(), "it has just grown"
    memory.begin()
    async with asyncio.timeout(10):
        await returned.wait()
    memory.end()
    assert resident_mib == 100
    assert not memory._timer.is_running


LARGE_PULLS = """
import asyncio, resource
from wakelog.actors.transport.free_memory import free_memory
from wakelog.storage.config import StoreConfig
from wakelog.storage.read.batch_limits import limits_large

memory, size_bytes = free_memory(), limits_large(StoreConfig(store_path_root="/s"), 1).memory[0]


async def begin():
    memory.begin()


def pull():
    pulls = [bytearray(size_bytes) for _ in range(3)]


def faults_count():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


asyncio.run(begin())
pull()
before_count = faults_count()
for _ in range(20):
    pull()
print(faults_count() - before_count)
"""


@pytest.mark.process
def test_large_pulls_get_the_memory_of_those_before_them() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LARGE_PULLS], capture_output=True, text=True, check=True
    )
    assert int(ended.stdout) < 1_000, "15,000 if each page comes from the system again"
