"""RunResponses: the responses to messages of a `SendRun`, as one value.

Invariant: `encode` makes the bytes that `encode_frame` makes of `commands`.
"""

import struct
from functools import lru_cache
from typing import Final

from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.frame import encode_frame
from wakelog.protocol.header_codec import encode_header

_PREFIX: Final = struct.Struct(">II")
_SAMPLE_OPAQUE: Final = 1_234_567_890


class RunResponses(RemotingCommand, kw_only=True, gc=False):
    """Responses that are encoded together once it is known how they end.

    ext_fields: what all of them carry. Without any they carry nothing of their own, either.
    stored: of each message its opaque, its queue id, its id and its queue offset.
    """

    stored: list[tuple[int, int, str, int]]

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
                    "msgId": message_id,
                    "queueId": str(queue_id),
                    "queueOffset": str(queue_offset),
                },
            )
            for opaque, queue_id, message_id, queue_offset in self.stored
        ]

    def encode(self) -> bytes:
        """Return all responses as frames. Raises: LocalProtocolError."""
        if self.remark is not None or not self.ext_fields:
            return b"".join(map(encode_frame, self.commands()))
        template = _template(self.code, tuple(self.ext_fields.items()))
        parts: list[bytes] = []
        for opaque, queue_id, message_id, queue_offset in self.stored:
            header = (template % (message_id, queue_id, queue_offset, opaque)).encode()
            parts += (_PREFIX.pack(len(header) + 4, len(header)), header)
        return b"".join(parts)


@lru_cache(maxsize=16)
def _template(code: int, fields: tuple[tuple[str, str], ...]) -> str:
    """Return the header of a response, with places for what is the message's own."""
    escaped = {name: value.replace("%", "%%") for name, value in fields}
    sample = RunResponses(
        code=code, ext_fields=escaped, stored=[(_SAMPLE_OPAQUE, 0, "", 0)]
    ).commands()[0]
    sample.ext_fields.update(msgId="%s", queueId="%d", queueOffset="%d")
    return encode_header(sample).decode().replace(f'"opaque":{_SAMPLE_OPAQUE}', '"opaque":%d')
