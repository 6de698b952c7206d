"""RemotingCommand: one frame as a value, and how a response is made from a request.

It stands between frame.py, which makes commands from bytes and bytes from commands, and the
processors, which read `ext_fields` through headers/.

`flag` bits: 0 response, 1 one-way. `opaque` is a signed 32-bit number the requester chose and
the responder repeats. `language` is a LanguageCode's number, or the name a peer gave if
upstream does not know it. `serialize_type` says how the header of this one frame is written.

Source: org.apache.rocketmq.remoting.protocol.RemotingCommand (4.9.3)
"""

from typing import Final

import msgspec

from wakelog.protocol.codes import VERSION_4_9_3, LanguageCode

RESPONSE_FLAG: Final = 0x1
ONEWAY_FLAG: Final = 0x2

SERIALIZE_JSON: Final = 0
SERIALIZE_ROCKETMQ: Final = 1


class RemotingCommand(msgspec.Struct, gc=False):
    """A request or a response.

    `gc=False` takes a hot object off the collector's lists; it is safe because no field can
    refer back to a command.
    """

    code: int
    opaque: int = 0
    flag: int = 0
    ext_fields: dict[str, str] = {}  # msgspec copies it for each command
    body: bytes = b""
    remark: str | None = None
    language: int | str = int(LanguageCode.JAVA)
    version: int = VERSION_4_9_3
    serialize_type: int = SERIALIZE_JSON

    @property
    def is_response(self) -> bool:
        """Say whether this answers a request of ours."""
        return self.flag & RESPONSE_FLAG != 0

    @property
    def is_oneway(self) -> bool:
        """Say whether the requester wants no answer."""
        return self.flag & ONEWAY_FLAG != 0


def answer(
    request: RemotingCommand,
    code: int,
    remark: str | None = None,
    ext_fields: dict[str, str] | None = None,
    body: bytes = b"",
) -> RemotingCommand:
    """Make the response to `request`: its opaque repeated, the response flag set.

    The header is JSON whatever the request's was: 4.9.3 makes a fresh command, which has the
    server's own serialise type.
    """
    return RemotingCommand(
        int(code),
        request.opaque,
        RESPONSE_FLAG,
        {} if ext_fields is None else ext_fields,
        body,
        remark,
    )


def make_request(
    code: int,
    ext_fields: dict[str, str] | None = None,
    body: bytes = b"",
    *,
    opaque: int,
    oneway: bool = False,
) -> RemotingCommand:
    """Make a request; `opaque` comes from the caller's own counter."""
    return RemotingCommand(
        int(code),
        opaque,
        ONEWAY_FLAG if oneway else 0,
        {} if ext_fields is None else ext_fields,
        body,
    )
