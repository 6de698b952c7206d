"""Which messages are shown to a person: by tags, an SQL92 expression, a part of their text.

Brokers filter by the hash of a tag. The exact tag, and an expression, are checked here. So an
expression works at brokers that refuse such subscriptions, too.

Invariants: little more than `TEXT_BYTES_MAX` bytes of a body are inflated to look for a text.
"""

import re
import zlib
from collections.abc import Callable, Iterator
from typing import Final

from wakelog.client.errors import ClientError, InvalidArgument, one_line
from wakelog.client.received import ReceivedMessage
from wakelog.filter.errors import IllegalExpression
from wakelog.filter.sql92 import compile_filter
from wakelog.protocol.compression import INFLATED_BYTES_MAX, METHOD_MASK
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.subscription import build_subscription
from wakelog.protocol.sys_flag import MESSAGE_COMPRESSED

TEXT_BYTES_MAX: Final = 256 << 10
"""Of one body, in which a text is looked for."""
PIECE_BYTES_MAX: Final = 256 << 10

_CLASS_NAME: Final = re.compile(r"^[a-z.]+\.[A-Za-z0-9]+: ")
"""Of 4.9.3's exception, with which a broker answers."""

Accepts = Callable[[ReceivedMessage], bool]


class FilterRefused(InvalidArgument):
    """A filter that cannot be. part: `filter` for tags, or `sql`."""

    part = ""


def make_filter(tags: str, sql: str, text: str = "") -> Accepts:
    """Return what says whether a message is shown. Raises: FilterRefused."""
    try:
        names = build_subscription("", tags or "*").tags_set
        compiled = compile_filter(sql) if sql else None
    except RemoteProtocolError:
        raise _refused("filter", f"{tags!r} has no tag", "Give 'paid || refunded'.") from None
    except IllegalExpression as error:
        reason = one_line(_CLASS_NAME.sub("", str(error)))
        cause = f"{sql!r} is no expression: {reason}"
        raise _refused("sql", cause, "See docs/filter.md for the language.") from None
    wanted = text.lower()

    def accepts(message: ReceivedMessage) -> bool:
        if names and message.tags not in names:
            return False
        if compiled is not None and not compiled.matches(message.properties):
            return False
        return not wanted or has_text(message, wanted)

    return accepts


def has_text(message: ReceivedMessage, wanted: str) -> bool:
    """Return whether a text, in small letters, is in the properties or the begin of the body."""
    if any(wanted in each.lower() for each in message.properties.values()):
        return True
    return wanted in begin_of(message, TEXT_BYTES_MAX).decode(errors="replace").lower()


def begin_of(message: ReceivedMessage, bytes_max: int) -> bytes:
    """Return the begin of a body, inflated as far as needed; as stored if it cannot be."""
    record = message.record
    if not record.sys_flag & MESSAGE_COMPRESSED:
        return bytes(record.body[:bytes_max])
    try:
        if record.sys_flag & METHOD_MASK in (0, 0x300):
            return zlib.decompressobj().decompress(bytes(record.body), bytes_max)
        return message.body[:bytes_max]
    except (zlib.error, ClientError):
        return bytes(record.body[:bytes_max])


def pieces_of(message: ReceivedMessage) -> Iterator[bytes]:
    """Yield a body as its producer gave it, in pieces of PIECE_BYTES_MAX.

    Little more than a piece is made at a time of what zlib has compressed. Raises: ClientError if
    it cannot be inflated, or is larger than the protocol inflates.
    """
    record = message.record
    is_zlib = record.sys_flag & METHOD_MASK in (0, 0x300)
    if not (record.sys_flag & MESSAGE_COMPRESSED and is_zlib):
        body = message.body
        yield from (body[x : x + PIECE_BYTES_MAX] for x in range(0, len(body), PIECE_BYTES_MAX))
        return
    stream, left, made_bytes = zlib.decompressobj(), bytes(record.body), 0
    while not stream.eof:
        try:
            piece = stream.decompress(left, PIECE_BYTES_MAX)
        except zlib.error as error:
            raise _no_body(message, str(error)) from None
        left, made_bytes = stream.unconsumed_tail, made_bytes + len(piece)
        if made_bytes > INFLATED_BYTES_MAX or not (piece or stream.eof):
            raise _no_body(message, f"it is incomplete, or over {INFLATED_BYTES_MAX:,} bytes")
        yield piece


def _no_body(message: ReceivedMessage, reason: str) -> ClientError:
    cause = f"{message!r}: a compressed body cannot be read: {reason}"
    return ClientError(cause, "Look at how it was sent")


def _refused(part: str, cause: str, remedy: str) -> FilterRefused:
    error = FilterRefused(cause, remedy)
    error.part = part
    return error
