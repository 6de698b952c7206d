"""The compressed body of REGISTER_BROKER, which a broker with many topics sends.

A zlib stream of the following, all numbers big endian:

    width  field
    4+n    DataVersion, JSON
    4      number of topics
    4+n    for each: `name readQueueNums writeQueueNums perm topicFilterType`
    4+n    filter servers, a JSON list

The text of a topic has neither topicSysFlag nor order: they are lost. `bodyCrc32` of the request is
the checksum of the compressed bytes; 0 means unchecked.

The stream is inflated in steps, as it is read. Both forms are decoded in steps of TOPICS_PER_STEP
topics.

Invariants: a stream with more than TOPICS_MAX topics, or that would inflate to more than
INFLATED_BYTES_MAX, is refused before it takes the memory or the time for them.

Source: org.apache.rocketmq.common.protocol.body.RegisterBrokerBody,
org.apache.rocketmq.common.TopicConfig.encode (4.9.3)
"""

import struct
import zlib
from typing import Final

import msgspec

from wakelog.protocol import fastjson
from wakelog.protocol.bodies import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from wakelog.protocol.body_codec import decode_body, encode_body
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.java import parse_integer
from wakelog.protocol.steps import Steps
from wakelog.typed_values import json_decoder

INFLATED_BYTES_MAX: Final = 16 * 1024 * 1024
"""As a frame that is not compressed: 100,000 topics of the longest name."""

TOPICS_MAX: Final = 131_072
"""A frame that is not compressed has room for about 100,000."""

TOPICS_PER_STEP: Final = 128
"""Some 0.3 ms."""

CHECKED_BYTES_PER_STEP: Final = 1024 * 1024
"""Some 0.3 ms of calculating the checksum."""

_STEP_BYTES: Final = 64 * 1024

_INT = struct.Struct(">i")
_TOPIC_FIELDS = 5
_BEST_COMPRESSION = 9


def decode_in_steps(
    data: bytes, *, compressed: bool, inflated_bytes_max: int = INFLATED_BYTES_MAX
) -> Steps[RegisterBrokerBody]:
    """Read either form of the body.

    Raises:
        RemoteProtocolError: if it is malformed, or inflates to more than the limit.
    """
    if not compressed:
        try:
            body = _decode_raw(data)
        except (ValueError, RecursionError):
            return decode_body(RegisterBrokerBody, data)
        wrapper = yield from _decode_wrapper(body.topic_config_serialize_wrapper)
        return RegisterBrokerBody(wrapper, body.filter_server_list)
    reader = _Reader(data, inflated_bytes_max)
    data_version = decode_body(DataVersion, reader.block())
    topics = {}
    for number in range(1, reader.count() + 1):
        topic = _decode_topic(reader.block())
        topics[topic.topic_name] = topic
        if not number % TOPICS_PER_STEP:
            yield
    return RegisterBrokerBody(
        TopicConfigSerializeWrapper(topics, data_version), _decode_names(reader.block())
    )


def decode_topics_in_steps(data: bytes) -> Steps[TopicConfigSerializeWrapper]:
    """Read the body of a broker before 3.0.11: topics alone. Raises: RemoteProtocolError."""
    try:
        wrapper = _decode_raw_wrapper(data)
    except (ValueError, RecursionError):
        return decode_body(TopicConfigSerializeWrapper, data)
    return (yield from _decode_wrapper(wrapper))


def encode_register_broker(body: RegisterBrokerBody, *, compressed: bool) -> bytes:
    """Write either form of the body."""
    if not compressed:
        return encode_body(body)
    wrapper = body.topic_config_serialize_wrapper
    parts = [*_block(encode_body(wrapper.data_version))]
    parts.append(_INT.pack(len(wrapper.topic_config_table)))
    for topic in wrapper.topic_config_table.values():
        parts += _block(_encode_topic(topic))
    parts += _block(fastjson.dumps(body.filter_server_list))
    return zlib.compress(b"".join(parts), _BEST_COMPRESSION)


def body_checksum(data: bytes) -> int:
    """Return the bodyCrc32 of the bytes as they are sent."""
    return zlib.crc32(data) & 0x7FFFFFFF


def checksum_in_steps(data: bytes) -> Steps[int]:
    """Return `body_checksum`."""
    checksum = 0
    for begin in range(0, len(data), CHECKED_BYTES_PER_STEP):
        if begin:
            yield
        checksum = zlib.crc32(data[begin : begin + CHECKED_BYTES_PER_STEP], checksum)
    return checksum & 0x7FFFFFFF


class _RawWrapper(msgspec.Struct, rename="camel"):
    topic_config_table: dict[str, msgspec.Raw] = {}
    data_version: DataVersion = DataVersion()


class _RawBody(msgspec.Struct, rename="camel"):
    topic_config_serialize_wrapper: _RawWrapper = msgspec.field(default_factory=_RawWrapper)
    filter_server_list: list[str] = []


_decode_raw = json_decoder(_RawBody, strict=False).decode
_decode_raw_wrapper = json_decoder(_RawWrapper, strict=False).decode


def _decode_wrapper(raw: _RawWrapper) -> Steps[TopicConfigSerializeWrapper]:
    topics = {}
    for number, (name, text) in enumerate(raw.topic_config_table.items(), 1):
        topic = bytes(text)
        if topic != b"null":
            topics[name] = decode_body(TopicConfig, topic)
        if not number % TOPICS_PER_STEP:
            yield
    return TopicConfigSerializeWrapper(topics, raw.data_version)


class _Reader:
    """A cursor over the bytes as they inflate; every length is checked against the limits."""

    def __init__(self, data: bytes, bytes_max: int) -> None:
        self._stream = zlib.decompressobj()
        self._compressed = memoryview(data)
        self._left_bytes = self._bytes_max = bytes_max
        self._inflated = b""
        self._position = 0

    def count(self) -> int:
        value = self._int()
        if not 0 <= value <= TOPICS_MAX:
            raise _malformed(f"{value} topics, at most {TOPICS_MAX} are allowed")
        return value

    def block(self) -> bytes:
        return self._take(self._int())

    def _int(self) -> int:
        (value,) = _INT.unpack(self._take(_INT.size))
        return int(value)

    def _take(self, size: int) -> bytes:
        if not 0 <= size <= self._bytes_max:
            raise _malformed(f"a length of {size}, at most {self._bytes_max} bytes when inflated")
        end = self._position + size
        if end > len(self._inflated):
            self._inflate(size)
            end = size
        taken = self._inflated[self._position : end]
        self._position = end
        return taken

    def _inflate(self, size: int) -> None:
        """Inflate until ``size`` bytes from the position are there; the position is 0 then."""
        parts = [self._inflated[self._position :]]
        have = len(parts[0])
        while have < size:
            wanted = min(max(_STEP_BYTES, size - have), self._left_bytes)
            if not wanted:
                raise _malformed(f"more than {self._bytes_max} bytes when inflated")
            chunk = self._stream.unconsumed_tail or bytes(self._compressed[:_STEP_BYTES])
            if not self._stream.unconsumed_tail:
                self._compressed = self._compressed[_STEP_BYTES:]
            try:
                step = self._stream.decompress(chunk, wanted)
            except zlib.error as error:
                raise _malformed(str(error)) from error
            if not (step or self._compressed) or (self._stream.eof and not step):
                raise _malformed(f"the stream ends early: {size - have} bytes are missing")
            self._left_bytes -= len(step)
            have += len(step)
            parts.append(step)
        self._inflated = b"".join(parts)
        self._position = 0


def _decode_topic(data: bytes) -> TopicConfig:
    try:
        name, read_queues, write_queues, perm, filter_type = data.decode("utf-8").split(" ")
        return TopicConfig(
            name,
            parse_integer(read_queues),
            parse_integer(write_queues),
            parse_integer(perm),
            filter_type,
        )
    except ValueError as error:
        raise _malformed(f"a topic is not {_TOPIC_FIELDS} words: {error}") from error


def _encode_topic(topic: TopicConfig) -> bytes:
    fields = (
        topic.topic_name,
        topic.read_queue_nums,
        topic.write_queue_nums,
        topic.perm,
        topic.topic_filter_type,
    )
    return " ".join(map(str, fields)).encode("utf-8")


def _decode_names(data: bytes) -> list[str]:
    try:
        names = fastjson.loads(data)
    except ValueError as error:
        raise _malformed(str(error)) from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _malformed("filter servers are no list of strings")
    return names


def _block(content: bytes) -> tuple[bytes, bytes]:
    return _INT.pack(len(content)), content


def _malformed(reason: str) -> RemoteProtocolError:
    return RemoteProtocolError(ResponseCode.SYSTEM_ERROR, f"malformed registration: {reason}")
