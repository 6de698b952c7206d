"""Short slices: a thread that sleeps often is given the processor soon on a busy machine.

Beside programs that compute, a thread that wakes up may wait until the slice of the running one is
over: some 3 ms. Linux 6.12 and later let a thread ask for a shorter slice of its own. It then comes
first when it wakes up, and has to pause sooner. Its share of the processor is the same.

Nothing needs it: where the kernel does not know it or refuses it, all goes on as before. An
operator who chose a policy, such as SCHED_FIFO or SCHED_BATCH, keeps that.

Source: Linux, kernel/sched/syscalls.c (6.12), sched_setattr(2).
"""

import ctypes
import platform
import struct
from typing import Final

SLICE_MICROSECONDS: Final = 500
"""A turn of a Broker takes 100 to 300."""

_CALLS: Final = {"x86_64": (315, 314), "aarch64": (275, 274)}
"""The numbers of sched_getattr and sched_setattr."""
_ATTRIBUTES: Final = struct.Struct("<IIQiIQQQ")
"""Size, policy, flags, nice, priority, runtime, deadline and period."""
_OTHER: Final = 0
"""The policy of a thread for which none was chosen."""


def use_short_slices() -> bool:
    """Ask for short slices for this thread; return whether the kernel took the call.

    An older kernel takes it, too, and ignores it. The thread's niceness and flags stay as they are.
    Threads that it starts later have short slices, too.
    """
    numbers = _CALLS.get(platform.machine())
    if numbers is None or platform.system() != "Linux":
        return False
    call, (get, set_) = ctypes.CDLL(None).syscall, numbers
    found = ctypes.create_string_buffer(_ATTRIBUTES.size)
    if call(get, 0, found, _ATTRIBUTES.size, 0) != 0:
        return False
    _, policy, flags, nice, *_ = _ATTRIBUTES.unpack(found.raw)
    if policy != _OTHER:
        return False
    slice_ns = SLICE_MICROSECONDS * 1_000
    wanted = _ATTRIBUTES.pack(_ATTRIBUTES.size, _OTHER, flags, nice, 0, slice_ns, 0, 0)
    return bool(call(set_, 0, wanted, 0) == 0)
