"""How a function of a kernel is compiled.

    kernel    called from Python, and runs without the interpreter's lock
    inlined   part of a kernel, without a call of its own
    making    a kernel that makes arrays, and leaves all loops to inlined parts

Only `making` counts references to arrays. numba does that with locked instructions at each call of
a part, which took three quarters of a scan. Callers of the other two hold the arrays that they
pass.

Only the kernels import this module, and with it numba.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])


class Compiled(Protocol):
    """Compiles a function, and keeps its signature."""

    def __call__(self, function: F, /) -> F:
        """Compile at the first call."""
        ...


# `_nrt` (whether references are counted) is not public, so that numba's types lack it.
_COMPILE: Final[Any] = njit

kernel: Final[Compiled] = _COMPILE(cache=True, nogil=True, _nrt=False)
inlined: Final[Compiled] = _COMPILE(cache=True, forceinline=True, _nrt=False)
making: Final[Compiled] = _COMPILE(cache=True, nogil=True)
