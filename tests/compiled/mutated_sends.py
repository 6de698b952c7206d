"""Chunks of sends in which something is wrong or unusual, and what both twins make of one.

    python -m tests.compiled.mutated_sends LIBRARY COUNT

tries a library that was built with other options. A chunk is in memory of exactly its length, so
that a sanitizer sees a read behind it.
"""

import json
import struct
import sys
from array import array
from collections.abc import Iterator, Sequence
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from random import Random
from typing import Final

from msgspec.structs import replace

from tests.compiled import mutated_lists, mutated_messages, mutated_pulls
from tests.hostile_frames import PIECES, VALUES
from wakelog.client import consumer_message, plain_messages
from wakelog.protocol import compiled_run, plain_run, record, run_responses
from wakelog.protocol.batch import encode_batch_body
from wakelog.protocol.properties import decode_properties
from wakelog.protocol.record import record_encoder
from wakelog.protocol.send_run import LogRoom, RunQueues, RunRules
from wakelog.storage.read import reader

NAMES_MAX: Final = 32
"""As in runs.h."""

PLAIN_FIELDS: Final = {
    "a": '"producers"', "b": '"orders"', "c": '"TBW102"', "d": '"4"', "e": '"1"', "f": '"0"',
    "g": '"1700000000000"', "h": '"0"', "i": '"UNIQ_KEY\\u00010B\\u0002WAIT\\u0001true"',
    "j": '"0"', "k": '"false"', "l": '"16"', "m": '"false"',
}  # fmt: skip
SIGNING_FIELDS: Final = {
    "AccessKey": '"an-account"', "SecurityToken": '"a token"', "Signature": '"aGVsbG8r\\/w=="',
}  # fmt: skip
PLAIN_HEAD: Final = {
    "flag": "0", "language": '"JAVA"', "opaque": "7", "serializeTypeCurrentRPC": '"JSON"',
    "version": "401",
}  # fmt: skip

VALUES_JSON: Final = (
    *map(json.dumps, VALUES),
    *(json.dumps(text, ensure_ascii=False) for text in VALUES if text.isprintable()),
    *("0", "-0", "1", "-1", "00", "01", "1.0", "1e3", "2147483647", "2147483648", "-2147483648"),
    *("-2147483649", "9223372036854775807", "9223372036854775808", "-9223372036854775808"),
    *("9999999999999999999", "18446744073709551616", "+1", "-", "true", "false", "null", "nul"),
    *('"+1"', '" 1"', '"1 "', '"007"', '"-0"', '"-5"', '"null"', '"True"', '"TRUE"', '"1"', '"0"'),
    *("[]", "{}", '{"a":"b"}', '"\\u0000"', '"\\ud83d\\ude00"', '"\\ud800"', '"\\udc00x"'),
    *(
        '"\\/\\b\\f\\n\\r\\t\\"\\\\"',
        '"\\x"',
        '"\\u12"',
        '"\\u00e9\\u20ac"',
        '"é€😀"',
        '"a',
        '"\n"',
    ),
    *('"\x7f"', '"' + "x" * 300 + '"', '"' + "\\u0001" * 40 + '"'),
)
PROPERTIES: Final = (
    *("WAIT\x01false", "WAIT\x01TRUE", "WAIT\x01", "DELAY\x013", "DELAY\x01", "TRAN_MSG\x01true"),
    *("CLUSTER\x01mine", "a\x01b\x01c", "\x01v", "a\x01", "\x02\x02", "TAGS\x01red", "KEYS\x01k l"),
    *(
        "é\x01value",
        "name\x01中文 😀",
        "%s\x01%d",
        "a\x01\x00",
        "x" * 40 + "\x01y",
        "a\x01" + "v" * 900,
    ),
    *("AaAa\x01collides", "BBBB\x01collides", "AaBB\x01collides", "BBAa\x01collides"),
)
BYTES: Final = (
    b"\xff",
    b"\x00",
    b'"',
    b"\\",
    b",",
    b"}",
    b"{",
    b"\xc0\xaf",
    b"\xed\xa0\x80",
    b"\xf5",
)


def run_queues(rows: list[tuple[int, int]]) -> RunQueues:
    """Return the table of queues from the next offset and the flag of each."""
    return array("q", [x for next_offset, flag in rows for x in (next_offset, flag, 0, 0, 0)])


def frame_of(header: bytes, body: bytes) -> bytes:
    """Return a frame."""
    return struct.pack(">2I", 4 + len(header) + len(body), len(header)) + header + body


SIZES: Final = (0, 1, 7, 8, 100, 1_000)
LENGTHS: Final = (0, 1, 21, 22, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


class MutatedSends:
    """An endless supply of chunks; the seed decides everything."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._code = 310  # of most frames of a chunk

    def __iter__(self) -> Iterator[bytes]:
        while True:
            self._code = self._random.choice((310, 310, 320))
            chunk = b"".join(self._frame() for _ in range(self._random.choice((1, 1, 2, 5, 20))))
            if self._random.random() < 0.1:
                chunk = chunk[: self._random.randrange(len(chunk) + 1)]
            yield chunk

    def _frame(self) -> bytes:
        random = self._random
        fields, head = dict(PLAIN_FIELDS), dict(PLAIN_HEAD)
        fields["e"] = f'"{random.randrange(4)}"'
        head["opaque"] = str(random.randrange(-(1 << 31), 1 << 31))
        if random.random() < 0.6:
            pairs = random.choices(PROPERTIES, k=random.choice((1, 2, 5, 12, 30, 40)))
            if random.random() < 0.5:
                pairs += [f"n{number}\x01v" for number in range(random.randrange(36))]
            random.shuffle(pairs)
            text = "\x02".join(pairs) + random.choice(("", "\x02"))
            fields["i"] = json.dumps(text, ensure_ascii=random.random() < 0.5)
        if random.random() < 0.2:
            fields |= SIGNING_FIELDS
            if random.random() < 0.5:
                del fields[random.choice(list(SIGNING_FIELDS))]
            fields = dict(sorted(fields.items(), key=lambda _: random.random()))
        for _ in range(random.choice((0, 0, 0, 1, 2))):
            chosen = random.choice((fields, fields, head))
            name = random.choice((*chosen, "n", "remark", "z", "code"))
            chosen[name] = random.choice(VALUES_JSON)
            if random.random() < 0.1:
                del chosen[name]
        head["extFields"] = self._object(list(fields.items()))
        is_batch = random.random() < 0.2
        if is_batch:
            fields["m"] = random.choice(('"true"', "true"))
            head["extFields"] = self._object(list(fields.items()))
        code = self._code if random.random() < 0.97 else random.choice((310, 320))
        text = f'{{"code":{code},' + self._object(list(head.items()))[1:]
        body = self._batch() if is_batch else random.randbytes(random.choice(SIZES))
        return self._damaged(text.encode("utf-8", "surrogatepass"), body)

    def _batch(self) -> bytes:
        random = self._random
        messages = [
            (
                random.randrange(-(1 << 31), 1 << 31),
                random.randbytes(random.choice(SIZES)),
                random.choice(PROPERTIES).encode() + random.choice((b"", b"\x02")),
            )
            for _ in range(random.choice((1, 2, 2, 5, 32)))
        ]
        if random.random() < 0.02:
            messages = messages[:1] * random.choice((250, 1_024, 1_025))
        batch = bytearray(encode_batch_body(messages))
        if random.random() < 0.1:
            at = random.choice((16, len(batch) - 1, random.randrange(len(batch))))
            batch[at : at + 4] = random.choice(LENGTHS).to_bytes(4, "big")
        if random.random() < 0.05:
            del batch[random.randrange(len(batch) + 1) :]
        return bytes(batch)

    def _object(self, items: list[tuple[str, str]]) -> str:
        if self._random.random() < 0.2:
            self._random.shuffle(items)
        if self._random.random() < 0.02:
            items.append(self._random.choice(items))
        return "{" + ",".join(f'"{name}":{value}' for name, value in items) + "}"

    def _damaged(self, header: bytes, body: bytes) -> bytes:
        random = self._random
        if random.random() < 0.15:
            at = random.randrange(len(header) + 1)
            piece = random.choice((*PIECES, *BYTES))
            header = header[:at] + piece + header[at + random.choice((0, 0, len(piece))) :]
        frame = bytearray(frame_of(header, body))
        if random.random() < 0.05:
            at = random.choice((0, 4))
            value = random.choice(
                (0, 3, 4, 8, 1 << 24, 0xFFFFFFFF, 0x7FFFFFFF, len(frame), len(header))
            )
            frame[at : at + 4] = value.to_bytes(4, "big")
        return bytes(frame)


RULES: Final = (
    RunRules(record_encoder(("127.0.0.1", 5000), ("127.0.0.1", 10911)), "DefaultCluster", False),
    RunRules(record_encoder(("::2", 5000), ("127.0.0.1", 10911)), "é", True),
    RunRules(record_encoder(("1.2.3.4", 0), ("::1", 1)), "", False),
    RunRules(record_encoder(("::2", 5000), ("::1", 10911)), "c" * 300, True),
)
ROOMS: Final = (
    LogRoom(1 << 40, 1_700_000_000_123, 1 << 41, 4_194_304),
    LogRoom(77, 0, 1_500, 4_194_304),
    LogRoom((1 << 62) + 1, 1 << 40, (1 << 63) - 1, 400),
)


def compare(chunk: bytes | memoryview, seed: int) -> tuple[int, int]:
    """Assert that what the compiled twin reads and places is what the other one does.

    seed: chooses the queues that get messages, the rules and the room.
    Returns: how many sends the compiled twin has read, and how many it has placed.
    """
    view, random = memoryview(chunk), Random(seed)
    found = compiled_run.read_run(view, 0)
    if found is None:
        return 0, 0
    compiled, end = found
    plain_found = plain_run.read_run(view[:end], 0)
    assert plain_found is not None and plain_found[1] == end
    plain = plain_found[0]
    assert plain.code == compiled.code
    assert (plain.queues, plain.count) == (compiled.queues, compiled.count)
    assert plain.frames_bytes == compiled.frames_bytes == end
    assert compiled.records_count == sum(len(each) or 1 for each in plain.batches)
    for index in range(plain.count):
        assert plain.head_of(index) == compiled.head_of(index)
        assert plain.place_of(index) == compiled.place_of(index)
        assert plain.topic_of(index) == compiled.topic_of(index)
        assert plain.signed(index) == compiled.signed(index)
    rows = [(random.choice((0, 5, 1 << 61, -1)), random.choice((0, 2))) for _ in plain.queues]
    rules, room = random.choice(RULES), random.choice(ROOMS)
    queues, plain_queues = run_queues(rows), run_queues(rows)
    by_compiled = compiled.place(queues, rules, room)
    by_plain = plain.place(run_queues(rows), rules, room)
    if by_plain.sends_count != by_compiled.sends_count:
        assert by_plain.sends_count > by_compiled.sends_count
        assert is_unusual(plain.sends[by_compiled.sends_count].header.properties)
    plain.count = by_compiled.sends_count
    by_plain = plain.place(plain_queues, rules, room)
    assert bytes(by_plain.records) == bytes(by_compiled.records)
    assert replace(by_plain, records=b"") == replace(by_compiled, records=b"")
    assert plain_queues == queues
    commands = [compiled.next_command() for _ in range(compiled.count)]
    assert {command.code for command in commands} == {compiled.code}
    return compiled.count, by_compiled.sends_count


def is_unusual(properties: str | None) -> bool:
    """Return whether the compiled twin may leave such properties to the other way."""
    names = decode_properties(properties)
    return len(names) >= NAMES_MAX or not all(name.isascii() for name in names)


def main(arguments: Sequence[str]) -> int:
    """Compare the twins with a library that is elsewhere."""
    path, count = Path(arguments[0]), int(arguments[1])
    loader = ExtensionFileLoader("functions", str(path))
    spec = spec_from_file_location("functions", path, loader=loader)
    assert spec is not None
    library = module_from_spec(spec)
    loader.exec_module(library)
    compiled_run._library = run_responses._library = reader._library = library
    plain_messages._library = consumer_message._library = library
    record._library = library
    read = stored = 0
    for seed, chunk in zip(range(count), MutatedSends(count), strict=False):
        sends, records = compare(memoryview(array("B", chunk)), seed)
        read, stored = read + sends, stored + records
    pulled = sum(map(mutated_pulls.compare, range(count)))
    listed = sum(map(mutated_lists.compare, range(count // 10)))
    made = sum(map(mutated_messages.compare, range(count // 10)))
    print(f"{count} chunks, {read} sends read, {stored} placed, {pulled} pulled", end=", ")
    print(f"{listed} listed, {made} made")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
