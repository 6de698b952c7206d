"""Compiles the kernels, and tries them.

To import numba takes about a second, and to compile about five, once for each version: numba keeps
the result beside the source.
"""

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
