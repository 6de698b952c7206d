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
    stored: a row of STORED for each.
    """

    id_begin: str
    stored: bytes

    @property
    def count(self) -> int:
        """How many responses there are."""
        return len(self.stored) // STORED.size

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
                    "msgId": f"{self.id_begin}{physical_offset:016X}",
                    "queueId": str(queue_id),
                    "queueOffset": str(queue_offset),
                },
            )
            for opaque, queue_id, physical_offset, queue_offset in STORED.iter_unpack(self.stored)
        ]

    def encode(self) -> bytes:
        """Return all responses as frames. Raises: LocalProtocolError."""
        if self.remark is not None or not self.ext_fields:
            return b"".join(map(encode_frame, self.commands()))
        template = _template(self.code, self.id_begin, tuple(self.ext_fields.items()))
        if _library is not None:
            return _library.encode_responses(template, self.stored)
        return encode_responses(template, self.stored)


def encode_responses(template: bytes, stored: bytes) -> bytes:
    """Return responses as frames: the twin in Python of `Library.encode_responses`."""
    form = template.replace(b"%", b"%%").replace(b"\0", b"%016X", 1).replace(b"\0", b"%d")
    parts: list[bytes] = []
    for opaque, queue_id, physical_offset, queue_offset in STORED.iter_unpack(stored):
        header = form % (physical_offset, queue_id, queue_offset, opaque)
        parts += (_PREFIX.pack(len(header) + 4, len(header)), header)
    return b"".join(parts)


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
