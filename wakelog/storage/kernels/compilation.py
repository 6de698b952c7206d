"""How a function of a kernel is compiled.

    kernel    what Python calls; other threads run meanwhile
    inlined   a part of kernels, which has no call of its own in them
    making    a kernel that makes arrays of its own, and leaves all loops to a part

Only the last counts references to arrays. numba does that with locked instructions, at each call of
a part: it took three quarters of a scan. Who calls the others holds what they are given.

Imported with numba by the kernels alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])


class Compiled(Protocol):
    """Makes compiled code of a function, which is called as the function is."""

    def __call__(self, function: F, /) -> F:
        """Compile at the first call."""
        ...


# Its types leave out what it does not promise: `_nrt`, whether references are counted.
_COMPILE: Final[Any] = njit

kernel: Final[Compiled] = _COMPILE(cache=True, nogil=True, _nrt=False)
inlined: Final[Compiled] = _COMPILE(cache=True, forceinline=True, _nrt=False)
making: Final[Compiled] = _COMPILE(cache=True, nogil=True)
