"""Kill a process while it makes a file: a program of its own, since Python's threads take turns.

    python -I -S creation_killer.py DIRECTORY PREFIX PROCESS CHANCE

It watches DIRECTORY for files whose name begins with PREFIX. A file is finished when it loses that
name, or when it is closed if it is made ahead. The program times the first few files, then kills
PROCESS in the middle of the next one, after CHANCE (0 to 1) of that time. Linux only (inotify).
"""

import ctypes
import os
import signal
import struct
import sys
import time
from collections.abc import Iterator

TIMED_COUNT = 2
AHEAD = b".ahead."
IN_CLOSE_WRITE = 0x8
IN_MOVED_FROM = 0x40
IN_CREATE = 0x100
IN_DELETE = 0x200
EVENT = struct.Struct("iIII")


def events(directory: str, prefix: bytes) -> Iterator[int]:
    """Yield what happens to names that begin so, as it does."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(os.O_CLOEXEC)
    wanted = IN_CREATE | IN_MOVED_FROM | IN_DELETE | IN_CLOSE_WRITE
    assert libc.inotify_add_watch(descriptor, directory.encode(), wanted) >= 0
    print("watching", flush=True)
    while True:
        data = os.read(descriptor, 1 << 16)
        at = 0
        while at < len(data):
            _, mask, _, length = EVENT.unpack_from(data, at)
            at += EVENT.size + length
            name = data[at - length : at]
            ends = IN_CLOSE_WRITE if AHEAD in name else IN_MOVED_FROM | IN_DELETE
            if name.startswith(prefix) and mask & (IN_CREATE | ends):
                yield mask


def main() -> None:
    """Time some, then kill."""
    directory, prefix, process_id, chance = sys.argv[1:]
    seconds: list[float] = []
    began = None
    for mask in events(directory, prefix.encode()):
        now = time.perf_counter()
        if not mask & IN_CREATE and began is not None:
            seconds.append(now - began)
        began = now if mask & IN_CREATE else None
        if began is not None and len(seconds) >= TIMED_COUNT:
            end = began + float(chance) * min(seconds)
            while time.perf_counter() < end:
                pass
            os.kill(int(process_id), signal.SIGKILL)
            return


if __name__ == "__main__":
    main()
