"""Lists of a client's messages of which some are odd, and the requests that both twins make."""

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any, Final

from wakelog.client import plain_messages
from wakelog.client.appended import APPENDED_BELOW
from wakelog.client.errors import InvalidArgument
from wakelog.client.lanes import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX
from wakelog.client.messages import COMPRESSED_BYTES_MIN, Message, SendRequest, pack
from wakelog.client.plain_messages import encode_plain, plain_requests

TOPICS: Final = {"orders": "of%orders", "bills": "bills", "%RETRY%g": "%RETRY%g"}
BODIES: Final = (b"b", b"", b"x" * COMPRESSED_BYTES_MIN, b"x" * (COMPRESSED_BYTES_MIN + 1), "text")
TAGS: Final = ("", "a", "ä€😀", "t" * APPENDED_BELOW, "t" * 32_600)
BAD_TAGS: Final = ("a\1b", "\ud800", "t" * 40_000, None, 1, b"a", ("a",))
APPENDED: Final = ("", "a\1b\2", "ä\1b\2" * 1_000)
ODD: Final[tuple[dict[str, Any], ...]] = (
    *({"topic": topic} for topic in ("bills", "unknown", "%RETRY%g", "", None, ("orders",))),
    *({"body": body} for body in (*BODIES, None, bytearray(b"b"), 5)),
    *({"tags": tags} for tags in BAD_TAGS),
    *({"keys": keys} for keys in ("k", ["k"], None)),
    *({"properties": {"a": "b"}}, {"delay_level": 1}, {"sharding_key": "s"}, {"flag": False}),
    *({"queue": ("", 1)}, {"flag": 7}, {"sharding_key": 0}, {"delay_level": False}),
)


class Other(Message):
    """No message of the class itself."""


def messages_of(random: Random) -> list[Any]:
    """Return a list; most have one topic, and one in two has nothing odd."""
    count = random.choice((1, 2, 5, 40, 40, BATCH_MESSAGES_MAX + random.randrange(-1, 2)))
    topic = random.choice(("orders",) * 4 + ("bills",) * 4 + ("%RETRY%g", "unknown"))
    body = random.choice((BODIES[0], BODIES[2]))
    messages: list[Any] = [
        Message("".join(topic), random.choice((body, b"b")), random.choice(TAGS[: 3 + count // 9]))
        for _ in range(count)
    ]
    if random.random() < 0.5:
        at = random.randrange(count)
        odd = messages[at]._replace(**random.choice(ODD))
        messages[at] = random.choice((odd, odd, odd, None, tuple(odd), Other(*odd), odd[:5]))
        if random.random() < 0.05:
            messages[at] = tuple.__new__(Message, odd[: random.randrange(10)])
    return messages


def found_by(call: Callable[[], Any]) -> Any:
    """Return what a call returns, or the text of what it refuses."""
    try:
        return call()
    except InvalidArgument as error:
        return str(error)


def compare(seed: int) -> int:
    """Assert that a list's requests are those of the other twin; return how many messages."""
    random = Random(seed)
    messages, appended = messages_of(random), random.choice(APPENDED)
    unique_keys = [f"{place:032X}" for place in range(len(messages))]
    found = found_by(lambda: plain_requests(messages, unique_keys, TOPICS, appended))
    if not found:
        return 0
    encoded = found_by(lambda: encode_plain(messages, unique_keys, TOPICS, appended))
    if isinstance(found, str):
        assert found == encoded
        return 0
    assert len(encoded) == len(messages)
    packed = pack(encoded, bytes_max=BATCH_BYTES_MAX, rows_max=BATCH_MESSAGES_MAX)
    assert len(found) == len(packed)
    for request, [expected] in zip(found, packed, strict=True):
        compare_requests(request, expected)
        if request.is_batch:
            for half, other in zip(request.halves, expected.halves, strict=True):
                compare_requests(half, other)
    try_calls(messages, unique_keys, random)
    return len(messages)


def compare_requests(found: SendRequest, expected: SendRequest) -> None:
    """Assert that two requests are the same on the wire, and for who looks at them."""
    assert found.body == expected.body and found.properties == expected.properties
    assert tuple(found.messages) == expected.messages and found.first == expected.first
    assert list(found.places) == list(expected.places)


def try_calls(messages: list[Any], unique_keys: list[str], random: Random) -> None:
    """Call the library with what does not fit together."""
    library = plain_messages._library
    assert library is not None
    given, keys = list(messages), list(unique_keys)

    def clear(tags: str) -> Any:
        given.clear()
        keys.clear()
        return b"before", b"after"

    functions = (clear, lambda _: None, lambda _: (b"", 5), lambda _: (b"", b"a" * 33_000), None)
    arguments: list[Any] = [
        given,
        keys,
        Message("", b""),
        messages[0].topic,
        random.choice(functions),
    ]
    arguments += [
        random.choice((0, 0, len(given), 1 << 40, -1)),
        random.choice((1_024, 5, 0, 1_025)),
    ]
    arguments += [random.choice((1 << 21, 100, 0, -1, 1 << 40)), 4_096]
    if random.random() < 0.5:
        at = random.randrange(len(arguments))
        arguments[at] = random.choice((None, 0, [], (), "text", [None] * 3, (None,) * 10))
    with suppress(ValueError, TypeError, IndexError, OverflowError):
        library.encode_list(*arguments)
