"""The compiled functions, as a type for their callers that imports neither numba nor NumPy."""

from collections.abc import Callable
from typing import NamedTuple


class Kernels(NamedTuple):
    """See `scan_kernel.py`, `entry_kernel.py` and `crc_kernel.py`; `loader.py` compiles them."""

    scan_records: Callable[..., tuple[int, int, int, int, int]]
    encode_groups: Callable[..., None]
    link_keys: Callable[..., int]
    check_bodies: Callable[..., int]
    crc_of_all: Callable[..., int]
