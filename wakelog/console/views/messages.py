"""Messages found: what was asked for, by the URL; rows; and lines of an export."""

import re
import shlex
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from wakelog.client.errors import InvalidArgument
from wakelog.client.message_filter import begin_of
from wakelog.client.message_search import Sought
from wakelog.client.received import ReceivedMessage, body_values, values_of

PREVIEW_BYTES: Final = 512
PREVIEW_LENGTH: Final = 120
CELL_LENGTH_MAX: Final = 256
"""Of ids, tags and keys in a list: each may have 32 KB."""
FIELD_LENGTH_MAX: Final = 1_024
"""Of a field of the URL; the rest is not read."""
EXPORT_BODY_BYTES_MAX: Final = 1 << 20

_SPAN: Final = re.compile(r"(\d{1,9})(s|m|h|d)", re.ASCII)
_MS_OF: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
"""What is not seen, or changes how its surroundings look: controls, directions, surrogates."""


def visible(text: str) -> str:
    r"""Return a text with what cannot be seen written out, as `\x1b` or `\u202e`."""
    return _HIDDEN.sub(lambda found: _escape(found[0]), text)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class MessageQuery(NamedTuple):
    """The fields of the search for messages, as the URL has them."""

    id: str = ""
    topic: str = ""
    key: str = ""
    begin: str = ""
    end: str = ""
    tag: str = ""
    sql: str = ""
    text: str = ""
    broker: str = ""
    queue: str = ""
    offset: str = ""
    order: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is looked for."""
        return not (self.id or self.topic or self.key)

    @property
    def is_place(self) -> bool:
        """Whether one offset of one queue is looked for."""
        return bool(self.offset or self.queue or self.broker)

    @property
    def query(self) -> dict[str, str]:
        """The fields by their names in the URL, without empty ones."""
        values = {_NAMES.get(name, name): text for name, text in self._asdict().items()}
        return {name: text for name, text in values.items() if text}


_NAMES: Final = {"begin": "from", "end": "to"}


def asked_of(query: Mapping[str, str], topic: str = "") -> MessageQuery:
    """Return what a URL asks for. topic: of its path."""
    found = {
        x: query.get(_NAMES.get(x, x), "").strip()[:FIELD_LENGTH_MAX] for x in MessageQuery._fields
    }
    return MessageQuery(**(found | {"topic": topic or found["topic"]}))


def place_of(asked: MessageQuery) -> tuple[int, int]:
    """Return queue and offset. Raises: InvalidArgument."""
    if not asked.broker:
        raise InvalidArgument("no broker is named", "Give broker, queue and offset")
    numbers = []
    for name, text in (("queue", asked.queue), ("offset", asked.offset)):
        if not re.fullmatch(r"[0-9]{1,18}", text):
            raise InvalidArgument(f"{visible(text)!r} is no {name}", "Give a whole number")
        numbers.append(int(text))
    return numbers[0], numbers[1]


def wanted_of(asked: MessageQuery, now_ms: int) -> Sought:
    """Return which messages of a topic are wanted. Raises: InvalidArgument for no time."""
    return Sought(
        asked.topic,
        moment_ms(asked.begin, now_ms) if asked.begin else 0,
        moment_ms(asked.end, now_ms) if asked.end else 0,
        asked.tag or "*",
        asked.sql,
        asked.text,
        asked.order == "oldest",
    )


def moment_ms(text: str, now_ms: int) -> int:
    """Return the milliseconds of `10m` (ago), a date, or milliseconds. Raises: InvalidArgument.

    A date without a zone is in UTC.
    """
    if span := _SPAN.fullmatch(text):
        return max(1, now_ms - int(span[1]) * _MS_OF[span[2]])
    if re.fullmatch(r"[0-9]{9,15}", text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(1, round(aware.timestamp() * 1000))
    except (ValueError, OverflowError):
        remedy = "Give 10m, 2h, 2026-11-24T06:00 (UTC), or milliseconds since 1970"
        raise InvalidArgument(f"{visible(text)!r} is no time", remedy) from None


def command_of(asked: MessageQuery) -> str:
    """Return the command line that finds about the same, "" for nothing."""
    if asked.id and not asked.topic:
        words = ["admin", "queryMsgById", "-i", asked.id]
    elif asked.id:
        words = ["admin", "queryMsgByUniqueKey", "-i", asked.id, "-t", asked.topic]
    elif not asked.topic:
        return ""
    elif asked.key:
        words = ["admin", "queryMsgByKey", "-t", asked.topic, "-k", asked.key]
    elif asked.is_place:
        place = ["-b", asked.broker, "-i", asked.queue, "-o", asked.offset]
        words = ["admin", "queryMsgByOffset", "-t", asked.topic, *place]
    else:
        words = ["tail", asked.topic]
        for option, text in (("since", asked.begin), ("filter", asked.tag), ("sql", asked.sql)):
            words += [f"--{option}", text] if text else []
    return visible("wakelog " + shlex.join(words))


class MessageRow(NamedTuple):
    """A message in a list. place: where it is; key: names it in the page; link: its id there."""

    key: str
    link: str
    id: str
    topic: str
    place: str
    stored_ms: int
    tags: str
    keys: str
    preview: str
    size_bytes: int
    retries: int


def row_of(message: ReceivedMessage) -> MessageRow:
    """Return a message as a row."""
    record = message.record
    return MessageRow(
        f"m-{message.offset_message_id}",
        message.offset_message_id,
        _short(message.message_id),
        visible(message.full_topic),
        f"{visible(message.broker) or '?'}/{message.queue_id}@{message.queue_offset}",
        record.store_timestamp_ms,
        _short(message.tags),
        _short(" ".join(message.keys)),
        preview_of(message),
        len(record.body),
        message.reconsume_times,
    )


def _short(text: str) -> str:
    """Return a text for a cell: the page of the message has all of it."""
    shown = visible(text[: CELL_LENGTH_MAX + 1])
    return shown if len(text) <= CELL_LENGTH_MAX else shown[:CELL_LENGTH_MAX] + "…"


def rows_of(messages: Iterable[ReceivedMessage]) -> list[MessageRow]:
    """Return messages as rows, in their order."""
    return [row_of(each) for each in messages]


def preview_of(message: ReceivedMessage) -> str:
    """Return the begin of a body on one line."""
    body = begin_of(message, PREVIEW_BYTES)
    text = visible(" ".join(body.decode(errors="backslashreplace").split()))
    return text if len(text) <= PREVIEW_LENGTH else text[:PREVIEW_LENGTH] + "…"


def line_of(message: ReceivedMessage) -> dict[str, Any]:
    """Return a message as it is exported, a JSON object; a long body is cut."""
    body = begin_of(message, EXPORT_BODY_BYTES_MAX + 1)
    more = {"bodyIsCut": True} if len(body) > EXPORT_BODY_BYTES_MAX else {}
    return values_of(message) | body_values(body[:EXPORT_BODY_BYTES_MAX]) | more
