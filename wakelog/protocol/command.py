"""RemotingCommand: one frame as a value, and how a response is made from a request.

frame.py makes commands from bytes and bytes from commands. The request tables decode `ext_fields`
into the Structs of headers/.

`flag` bits: 0 response, 1 one-way. `opaque` is a signed 32-bit number that the requester chooses
and the response repeats. `language` is a LanguageCode's number, or the name that a peer gave if
4.9.3 does not have it. `serialize_type` is the form of this frame's header.

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

    missing_body_bytes: the length of a body that was not kept, because it is above what its code
        may have. `body` is empty then, and the request has to be refused.
    wants_view: of a request whose sender takes a memoryview as the body of its response.

    `gc=False` keeps frequent objects off the collector's lists. It is safe: no field refers back to
    a command.
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
    missing_body_bytes: int = 0
    wants_view: bool = False

    @property
    def size_bytes(self) -> int:
        """About how much memory its fields and its body keep."""
        fields = self.ext_fields
        return len(self.body) + sum(map(len, fields)) + sum(map(len, fields.values()))

    @property
    def is_response(self) -> bool:
        """Whether this is a response."""
        return self.flag & RESPONSE_FLAG != 0

    @property
    def is_oneway(self) -> bool:
        """Whether the requester expects no response."""
        return self.flag & ONEWAY_FLAG != 0


def answer(
    request: RemotingCommand,
    code: int,
    remark: str | None = None,
    ext_fields: dict[str, str] | None = None,
    body: bytes = b"",
) -> RemotingCommand:
    """Make the response to `request`: its opaque repeated, the response flag set.

    The header is always JSON: 4.9.3 makes a fresh command with the server's own serialise type.
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
