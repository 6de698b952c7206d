"""What users give by keyword: fields of messages, of subscribers and of publishers.

A broker, a router, a route and a publisher take the same keywords, which are written here once.
The names are those of FastStream's Kafka broker where RocketMQ has the same thing.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypedDict, get_args

from fast_depends import Provider
from fast_depends.dependencies import Dependant
from fast_depends.library.serializer import SerializerProto
from faststream import AckPolicy
from faststream._internal.basic_types import LoggerProto
from faststream._internal.constants import EMPTY
from faststream._internal.context import ContextRepo
from faststream._internal.parser import CodecProto
from faststream._internal.types import BrokerMiddleware, CustomCallable, IdGenerator
from faststream.exceptions import SetupError
from faststream.specification.schema.extra import Tag, TagDict

from wakelog.client import InvalidArgument
from wakelog.client.messages import MessageFields
from wakelog.client.options import Settings
from wakelog.client.plain import check_flags, unknown_names, whole_number
from wakelog.client.typed import Bad

BAD_BODY: Final[tuple[Bad, ...]] = get_args(Bad)


class PublishFields(TypedDict, total=False):
    """The fields of a message beside body, headers and topic.

    key: messages of a key stay in order, and tools find them by it; `keys` and `sharding_key` in
        one. keys: only to find it. sharding_key: only the order.
    tags: what subscribers filter by.
    delay: seconds or a timedelta, up to the next level of the broker. delay_level: the level.
    queue: the broker's name ("" for any) and the id of the queue.
    """

    key: str | bytes | None
    keys: str | Iterable[str]
    tags: str
    sharding_key: str
    delay: timedelta | float | None
    delay_level: int
    queue: tuple[str, int] | None


class PublisherFields(PublishFields, total=False):
    """The arguments of a publisher, beside topic and batch; the fields are of each message."""

    headers: Mapping[str, str] | None
    reply_to: str
    persistent: bool
    title: str | None
    description: str | None
    schema: Any | None
    include_in_schema: bool


class SubscriberFields(TypedDict, total=False):
    """The arguments of a subscriber, beside its topics.

    group_id: the consumer group; made of the topics and the function's name if not given.
    tags: as `"paid || refunded"`; sql: as `"amount > 100"`. Give one of them.
    start: where a queue begins that has no offset yet. auto_offset_reset: Kafka's word for it.
    ordered: each queue in order, one message at a time. broadcast: every process gets every one.
    max_retries: before a message is a dead letter; 16, and without end if ordered.
    consume_timeout: a message without `ack` for so long comes again; 15 minutes.
    batch: the function gets a list, of up to `max_records`; the wait is `batch_timeout_ms`.
    max_workers: messages that the function has at a time.
    bad_body: where a body goes that no decoder can read.
    """

    group_id: str | None
    tags: str
    sql: str
    start: Literal["first", "last"] | datetime
    auto_offset_reset: Literal["earliest", "latest"] | None
    ordered: bool
    broadcast: bool
    max_retries: int | None
    consume_timeout: timedelta
    batch: bool
    max_records: int
    batch_timeout_ms: int
    max_workers: int
    bad_body: Bad | None
    ack_policy: AckPolicy
    no_reply: bool
    dependencies: Sequence[Dependant]
    parser: CustomCallable | None
    decoder: CustomCallable | None
    codec: CodecProto | None
    persistent: bool
    title: str | None
    description: str | None
    include_in_schema: bool


class BrokerFields(Settings, total=False):
    """The keywords of a broker that mean what they mean for FastStream's others, and settings.

    graceful_timeout: seconds that a stop leaves to functions that run.
    ack_policy: `NACK_ON_ERROR` by default: what fails is delivered again, as in RocketMQ.
    """

    graceful_timeout: float | None
    ack_policy: AckPolicy
    id_generator: IdGenerator
    decoder: CustomCallable | None
    codec: CodecProto | None
    parser: CustomCallable | None
    dependencies: Sequence[Dependant]
    middlewares: Sequence[BrokerMiddleware[Any]]
    specification_url: str | Iterable[str] | None
    protocol: str | None
    protocol_version: str | None
    description: str | None
    tags: Iterable[Tag | TagDict]
    logger: LoggerProto | None
    log_level: int
    apply_types: bool
    provider: Provider | None
    serializer: SerializerProto | None
    context: ContextRepo | None


def check_names(kind: str, given: Mapping[str, object], known: Any) -> None:
    """Refuse keywords that a TypedDict lacks, such as misspelled ones. Raises: InvalidArgument."""
    names = known.__optional_keys__
    if unknown := given.keys() - names:
        raise unknown_names(kind, unknown, sorted(names))


def client_fields(given: PublishFields, properties: Mapping[str, str]) -> MessageFields:
    """Return the fields as `Producer.send` takes them. Raises: InvalidArgument."""
    key = given.get("key")
    if isinstance(key, bytes):
        try:
            key = key.decode()
        except UnicodeDecodeError:
            cause = f"key={key!r} is no text"
            raise InvalidArgument(cause, "Give a str, or bytes in UTF-8") from None
    delay = given.get("delay")
    fields: MessageFields = {
        "keys": given.get("keys") or key or "",
        "tags": given.get("tags", ""),
        "sharding_key": given.get("sharding_key") or key or "",
        "delay": timedelta(seconds=delay) if isinstance(delay, int | float) else delay,
        "delay_level": given.get("delay_level", 0),
        "queue": given.get("queue"),
        "properties": properties,
    }
    return fields


def check_values(given: SubscriberFields) -> None:
    """Check what FastStream would take as it is, and read as something else. Raises: SetupError."""
    try:
        for name in ("max_workers", "max_records", "batch_timeout_ms"):
            whole_number(name, given.get(name, 1), 1)
        check_flags(batch=given.get("batch", False), no_reply=given.get("no_reply", False))
    except InvalidArgument as error:
        raise SetupError(str(error)) from None
    check_policy(given.get("ack_policy", EMPTY))


def check_policy(given: object) -> None:
    """Check that an `ack_policy` is one, if it is given. Raises: SetupError."""
    if given is not EMPTY and not isinstance(given, AckPolicy):
        raise SetupError(f"ack_policy={given!r} is no AckPolicy. Give AckPolicy.MANUAL or another.")


def start_of(given: SubscriberFields) -> Literal["first", "last"] | datetime:
    """Return where new queues begin. Raises: SetupError."""
    reset = given.get("auto_offset_reset")
    if reset is None:
        return given.get("start", "last")
    if "start" in given:
        raise SetupError("start and auto_offset_reset are both given. Give start alone.")
    places: dict[str, Literal["first", "last"]] = {"earliest": "first", "latest": "last"}
    if reset not in places:
        raise SetupError(f"auto_offset_reset={reset!r} is unknown. Give earliest or latest.")
    return places[reset]


def plain_bad_body(given: str) -> Bad:
    """Return where unreadable bodies go. Raises: SetupError."""
    for known in BAD_BODY:
        if given == known:
            return known
    raise SetupError(f"bad_body={given!r} is unknown. Give raise, skip or dead_letters.")
