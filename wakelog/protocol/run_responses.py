"""RunResponses: the responses to messages of a `SendRun`, as one value.

Invariant: `encode` makes the bytes that `encode_frame` makes of `commands`, in either twin.
"""

import struct
from functools import lru_cache
from typing import Final

from wakelog.compiled.library import CHOICE, Library
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.frame import encode_frame
from wakelog.protocol.header_codec import encode_header
from wakelog.protocol.send_run import STORED

_PREFIX: Final = struct.Struct(">II")
_SAMPLE_OPAQUE: Final = 1_234_567_890
_library: Library | None = CHOICE.library


class RunResponses(RemotingCommand, kw_only=True, gc=False):
    """Responses that are encoded together once it is known how they end.

    ext_fields: what all of them carry. Without any they carry nothing of their own, either.
    id_begin: what all message ids begin with; the physical offset follows.
    stored: rows of STORED. count: how many responses they are.
    """

    id_begin: str
    stored: bytes
    count: int

    def commands(self) -> list[RemotingCommand]:
        """Return each response as a command."""
        return [
            answer(
                RemotingCommand(RequestCode.SEND_MESSAGE_V2, opaque),
                self.code,
                self.remark,
                self.ext_fields
                and {
                    **self.ext_fields,
                    "msgId": ",".join(f"{self.id_begin}{offset:016X}" for offset in offsets),
                    "queueId": str(queue_id),
                    "queueOffset": str(queue_offset),
                },
            )
            for opaque, queue_id, queue_offset, offsets in _by_response(self.stored)
        ]

    def encode(self) -> bytes:
        """Return all responses as frames. Raises: LocalProtocolError."""
        if self.remark is not None or not self.ext_fields:
            return b"".join(map(encode_frame, self.commands()))
        template = _template(self.code, self.id_begin, tuple(self.ext_fields.items()))
        joint = f",{self.id_begin}".encode()
        if _library is not None:
            return _library.encode_responses(template, joint, self.stored)
        return encode_responses(template, joint, self.stored)


def encode_responses(template: bytes, joint: bytes, stored: bytes) -> bytes:
    """Return responses as frames: the twin in Python of `Library.encode_responses`."""
    form = template.replace(b"%", b"%%").replace(b"\0", b"%b", 1).replace(b"\0", b"%d")
    parts: list[bytes] = []
    for opaque, queue_id, queue_offset, offsets in _by_response(stored):
        ids = joint.join([b"%016X" % offset for offset in offsets])
        header = form % (ids, queue_id, queue_offset, opaque)
        parts += (_PREFIX.pack(len(header) + 4, len(header)), header)
    return b"".join(parts)


def _by_response(stored: bytes) -> list[tuple[int, int, int, list[int]]]:
    """Return opaque, queue id, queue offset and the physical offsets of each response."""
    found: list[tuple[int, int, int, list[int]]] = []
    for opaque, queue_id, physical_offset, queue_offset in STORED.iter_unpack(stored):
        if queue_offset < 0:  # a further message of a batch
            found[-1][3].append(physical_offset)
        else:
            found.append((opaque, queue_id, queue_offset, [physical_offset]))
    return found


@lru_cache(maxsize=16)
def _template(code: int, id_begin: str, fields: tuple[tuple[str, str], ...]) -> bytes:
    """Return the header of a response, with a NUL at each of its places: JSON has no such byte."""
    mark = "@"
    while any(mark in text for field in fields for text in field):
        mark += "@"
    own = {"msgId": f"{id_begin}{mark}", "queueId": mark, "queueOffset": mark}
    sample = answer(RemotingCommand(code, _SAMPLE_OPAQUE), code, None, {**dict(fields), **own})
    header = encode_header(sample).replace(mark.encode(), b"\0")
    return header.replace(b'"opaque":%d' % _SAMPLE_OPAQUE, b'"opaque":\0')
