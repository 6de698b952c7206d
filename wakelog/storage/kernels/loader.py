"""Loads the compiled kernels in the background.

To import numba takes about a second, and to compile about five, once for each version: numba keeps
the result beside the source. Both happen in a thread, when Reput first has much to read.

Invariants: `kernels` never waits, and returns only what was compiled and tried. After a failure (no
writable cache, an unknown processor) the plain scan stays; `failure` has the reason.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wakelog.storage.kernels.columns import Columns
from wakelog.storage.kernels.kernels import Kernels
from wakelog.storage.log.append import MessageDraft, encode_draft
from wakelog.storage.log.scan import scan_plain


def compile_kernels() -> Kernels:
    """Import and compile now, wait for it, and try the result on one record.

    Raises: RuntimeError if the compiled scan and the plain one read that record differently.
    """
    from wakelog.storage.kernels.crc_kernel import check_bodies, crc_of_all
    from wakelog.storage.kernels.entry_kernel import encode_groups, link_keys
    from wakelog.storage.kernels.scan_kernel import scan_records

    kernels = Kernels(scan_records, encode_groups, link_keys, check_bodies, crc_of_all)
    draft = MessageDraft("topic", 1, b"body", born_host=("127.0.0.1", 6), store_host=("::1", 8))
    properties = b"UNIQ_KEY\x01u\x02TAGS\x01t\x02KEYS\x01k"
    record = encode_draft(draft, properties, queue_offset=3, physical_offset=0, timestamp_ms=7)
    columns = Columns(kernels, buffer_bytes=len(record), records_max=1)
    columns.buffer[:] = record
    columns.scan(begin=0, end=len(record), physical_offset=0, segment_end=len(record))
    columns.groups()
    columns.link_keys(
        np.zeros(1, dtype=np.int32),
        entry_next=1,
        begin_timestamp_ms=0,
        begin=0,
        end=columns.key_count,
    )
    plain = scan_plain(record, 0, len(record), ())
    agrees = columns.requests() == plain.requests and columns.key_count == 2
    if not agrees or columns.damaged_bodies():
        raise RuntimeError("compiled code from another version: remove numba's cache")
    return kernels


class KernelLoader:
    """Compiles once, at the first request, where `spawn` runs it."""

    def __init__(
        self,
        spawn: Callable[[Callable[[], None]], object],
        compile_now: Callable[[], Kernels] = compile_kernels,
    ) -> None:
        """Keep `spawn`, which runs a function in a thread, or in a test at once."""
        self._spawn = spawn
        self._compile_now = compile_now
        self._started = False
        self._kernels: Kernels | None = None
        self.failure = ""

    def kernels(self) -> Kernels | None:
        """Return the kernels if they are ready; the first call starts the work."""
        if not self._started:
            self._started = True
            self._spawn(self._run)
        return self._kernels

    def _run(self) -> None:
        try:
            self._kernels = self._compile_now()
        except Exception as error:  # any failure of a compiler: the plain way still works
            self.failure = f"{type(error).__name__}: {error}"
