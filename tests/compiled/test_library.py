"""Which twin runs, in words; and what the functions do with arguments that do not fit."""

import sys
import tracemalloc
import zlib
from array import array
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.client.clusters import messages as records
from tests.compiled import mutated_lists, mutated_messages, mutated_pulls
from tests.compiled.mutated_sends import MutatedSends
from tests.twins import use_twin
from wakelog.client.messages import Message
from wakelog.compiled import library
from wakelog.compiled.library import CHOICE, HOW, SWITCH, Library, choose
from wakelog.compiled.source import LIBRARY, is_current
from wakelog.protocol.batch import encode_batch_body
from wakelog.protocol.compiled_run import SEND
from wakelog.protocol.record import record_encoder
from wakelog.protocol.send_run import STORED

ENCODER = record_encoder(("1.2.3.4", 5), ("127.0.0.1", 10911))
needs_library = pytest.mark.skipif(not is_current(), reason="there is no C compiler")


@pytest.fixture
def functions(monkeypatch: pytest.MonkeyPatch) -> Library:
    """Load the library, whatever the switch says."""
    monkeypatch.delenv(SWITCH, raising=False)
    found = choose().library
    assert found is not None
    return found


def test_the_switch_chooses_plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    for word in ("no", "NO", "0", "off"):
        monkeypatch.setenv(SWITCH, word)
        assert str(choose()) == (
            f"plain Python, because {SWITCH} says so; unset {SWITCH}, and start the broker again"
        )


@needs_library
def test_the_library_is_taken_where_it_is_there(functions: Library) -> None:
    assert str(choose()) == f"compiled code ({SWITCH}=no chooses plain Python)"
    assert choose().remedy == ""


def stale(path: Path, _: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"of other source")


def damaged(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"")
    monkeypatch.setattr(library, "is_current", lambda: True)

    def refuse(name: str) -> None:
        raise ImportError(f"{name}: file too short")

    monkeypatch.setattr(library, "import_module", refuse)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda *_: None, "the compiled library is not built"),
        (stale, "the compiled library is of other source"),
        (damaged, "the compiled library does not load: wakelog.compiled.functions: file too short"),
    ],
)
def test_without_a_sound_library_plain_python_runs_and_says_why(
    change: Callable[[Path, pytest.MonkeyPatch], None],
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / LIBRARY.name
    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.setattr(library, "LIBRARY", path)
    monkeypatch.setattr(library, "is_current", lambda: is_current(path))
    change(path, monkeypatch)
    assert str(choose()) == (
        f"plain Python, because {reason};"
        f" run `{HOW}` with cc or the package ziglang there, and start the broker again"
    )


def test_a_library_that_computes_another_crc_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wrong:
        def crc32(self, data: bytes) -> int:
            return 1

    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.setattr(library, "LIBRARY", tmp_path)
    monkeypatch.setattr(library, "is_current", lambda: True)
    monkeypatch.setattr(library, "import_module", lambda _: Wrong())
    assert choose().reason == "the compiled library computes another CRC"


@needs_library
def test_the_crc_is_that_of_zlib(functions: Library) -> None:
    random = Random(1)
    for size in (*range(300), 4_096, 65_537):
        data = random.randbytes(size)
        assert functions.crc32(data) == zlib.crc32(data)
        assert functions.crc32(memoryview(data)[size // 3 :]) == zlib.crc32(data[size // 3 :])


def queues(*rows: int) -> "array[int]":
    return array("q", rows)


def encode(functions: Library, **changes: Any) -> tuple[int, int, bytes, int]:
    arguments: dict[str, Any] = {
        "chunk": b"x" * 100,
        "sends": SEND.pack(*ROW),
        "head": ENCODER.head,
        "cluster": b"c",
        "queues": queues(0, 0, 0, 0, 0),
        "out": bytearray(1_000),
        "taken_count": 0,
        "physical_offset": 0,
        "timestamp_ms": 0,
        "room_end": 1 << 40,
        "record_bytes_max": 1_000,
        "obeys_wait": False,
    }
    return functions.encode_records(*(arguments | changes).values())


ROW = (0, *(0, 8, 50, 7, 0), *(0, 1), *(0, 8), *(0, 0, 0), *(-1, 0), *(0, 0))
OUTSIDE = (
    *((index, value) for index in (2, 3) for value in (-1, 101, 2**31 - 1, -(2**31))),
    *((6, value) for value in (-1, 1, 2**31 - 1)),
    *((index, value) for index in (8, 9) for value in (-1, 101, 2**31 - 1)),
    *((13, value) for value in (-2, -(2**31), 101, 2**31 - 1)),
    *((14, value) for value in (-1, 1, 2**31 - 1)),
    *((15, value) for value in (-1, -(2**31))),
)


@needs_library
def test_a_sound_row_is_encoded(functions: Library) -> None:
    placed, size, stored, responses_count = encode(functions)
    assert (placed, size) == (1, 88 + 42 + 1 + 8 + 2 + len("CLUSTER\x01c"))
    assert STORED.unpack(stored) == (7, 1, 0, 0)
    assert responses_count == 1


@needs_library
@pytest.mark.parametrize("batched", [1, 2, 1_024, 1_025, 2**31 - 1])
def test_a_batch_has_the_messages_of_its_body_whatever_its_row_says(
    functions: Library, batched: int
) -> None:
    batch = encode_batch_body([(5, b"one", b"a\x01b"), (6, b"", b"")])
    row = list(ROW)
    row[2:4], row[15] = [8, 8 + len(batch)], batched
    table = queues(7, 0, 0, 0, 0)
    placed, size, stored, responses_count = encode(
        functions, chunk=b"x" * 8 + batch, sends=SEND.pack(*row), queues=table
    )
    sizes = [len(b"one") + len(b"a\x01b\x02"), 0]
    offsets = [0, sizes[0] + 88 + 1 + 8 + 2 + len("CLUSTER\x01c")]
    assert (placed, size, responses_count) == (1, 2 * offsets[1] - sizes[0], 1)
    assert [*STORED.iter_unpack(stored)] == [(7, 1, 0, 7), (7, 1, offsets[1], -1)]
    assert [*table] == [9, 0, 2, size, 1]
    assert encode(functions, chunk=b"x" * 8 + batch[:-1] + b"x", sends=SEND.pack(*row))[0] == 0


@needs_library
def test_more_rows_than_a_run_may_have_are_refused(functions: Library) -> None:
    batch = encode_batch_body([(0, b"", b"")] * 1_023)
    row = list(ROW)
    row[2:4], row[15] = [8, 8 + len(batch)], 1
    arguments: dict[str, Any] = {"chunk": b"x" * 8 + batch, "record_bytes_max": 1 << 20}
    arguments |= {"queues": queues(0, 0, 0, 0, 0), "out": bytearray(1 << 20)}
    assert len(encode(functions, sends=SEND.pack(*row), **arguments)[2]) == 1_023 * STORED.size
    with pytest.raises(ValueError, match="do not fit the sends"):
        encode(functions, sends=SEND.pack(*row) * 2, **arguments)


@needs_library
@pytest.mark.parametrize(("index", "value"), OUTSIDE)
def test_a_row_that_points_outside_is_refused(functions: Library, index: int, value: int) -> None:
    row = list(ROW)
    row[index] = value
    if index == 2 and value == 2**31 - 1:
        row[3] = value
    table = queues(0, 0, 0, 0, 0)
    with pytest.raises(ValueError, match="do not fit the sends"):
        encode(functions, sends=SEND.pack(*row), queues=table)
    assert table == queues(0, 0, 0, 0, 0)


@needs_library
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sends": b"x" * (SEND.size + 1)}, "no whole rows"),
        ({"sends": SEND.pack(*ROW) * 65}, "or too many"),
        ({"queues": array("q", [0] * 4)}, "no whole rows"),
        ({"queues": array("q", [0] * 5 * 65)}, "or too many"),
        ({"queues": array("q")}, "do not fit the sends"),
        ({"taken_count": 2}, "more sends are taken"),
        ({"taken_count": -1}, "more sends are taken"),
        ({"out": bytearray(100)}, "do not fit the sends"),
        ({"out": bytearray()}, "do not fit the sends"),
        ({"head": b"x" * 87}, "do not fit the sends"),
        ({"head": ENCODER.head + bytes(12)}, "do not fit the sends"),
        ({"physical_offset": -1}, "do not fit the sends"),
    ],
)
def test_tables_that_do_not_fit_together_are_refused(
    functions: Library, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        encode(functions, **changes)


@needs_library
@pytest.mark.parametrize("position", range(12))
def test_an_argument_of_another_type_is_refused(functions: Library, position: int) -> None:
    names = ["chunk", "sends", "head", "cluster", "queues", "out", "taken_count"]
    names += ["physical_offset", "timestamp_ms", "room_end", "record_bytes_max", "obeys_wait"]
    with pytest.raises((TypeError, OverflowError)):
        encode(functions, **{names[position]: None})
    read_only = {"queues": bytes(40), "out": bytes(1_000)}
    for name, value in read_only.items():
        with pytest.raises(BufferError):
            encode(functions, **{name: value})


@needs_library
def test_sends_are_read_within_limits(functions: Library) -> None:
    for numbers in (
        *((-1, 1, 1, 1, 1), (0, -1, 1, 1, 1), (0, 65, 1, 1, 1), (0, 1, -1, 1, 1)),
        *((0, 1, 1, -1, 1), (0, 1, 1, 1, 1 << 31)),
    ):
        with pytest.raises(ValueError, match="out of range"):
            functions.read_sends(b"", *numbers)
    with pytest.raises(OverflowError):
        functions.read_sends(b"", 1 << 64, 1, 1, 1, 1)
    assert functions.read_sends(b"", 5, 16, 1, 1, 1) == (5, 0, 0, 0, b"", ())
    with pytest.raises(ValueError, match="another number of arguments"):
        functions.read_sends(b"")  # type: ignore[call-arg]


@needs_library
@pytest.mark.parametrize("template", [b"", b"\0\0\0", b"\0\0\0\0\0", b"abc"])
def test_a_template_without_its_places_is_refused(functions: Library, template: bytes) -> None:
    with pytest.raises(ValueError, match="four places"):
        functions.encode_responses(template, b",", STORED.pack(1, 2, 3, 4))
    with pytest.raises(ValueError, match="no whole rows"):
        functions.encode_responses(template, b",", b"x")
    with pytest.raises(ValueError, match="or too many"):
        functions.encode_responses(template, b",", STORED.pack(1, 2, 3, 4) * 1_025)


@needs_library
def test_a_table_of_random_rows_does_no_harm(functions: Library) -> None:
    random, refused = Random(2), 0
    for chunk, _ in zip(MutatedSends(2), range(2_000), strict=False):
        size = len(chunk)
        row = list(ROW)
        row[3] = size
        for _ in range(random.choice((0, 1, 2))):
            row[random.randrange(1, 16)] = random.choice((-1, 0, 1, size - 1, size, 2**31 - 1))
        try:
            encode(functions, chunk=chunk, sends=SEND.pack(*row), out=bytearray(50_000))
        except ValueError:
            refused += 1
    assert 0 < refused < 2_000


@needs_library
def test_pulls_send_what_those_of_plain_python_send(monkeypatch: pytest.MonkeyPatch) -> None:
    use_twin("compiled", monkeypatch)
    negative_length = 18_857
    found = [mutated_pulls.compare(seed) for seed in (*range(3_000), negative_length)]
    assert sum(count > 1 for count in found) > 200 and found.count(0) > 300


@needs_library
def test_what_does_not_fit_a_pull_is_refused(functions: Library) -> None:
    entry = (5).to_bytes(8, "big") + (91).to_bytes(4, "big") + bytes(8)
    assert functions.choose_stretch(entry, 1, 100, 0, 200, 1_000, 10) == (1, 5, 96, 91, 5, 5)
    assert functions.choose_stretch(entry[:-1], 1, 100, 0, 200, 1_000, 10)[0] == 0
    assert functions.choose_stretch(entry, 1, 100, 0, 200, 0, 10)[0] == 0
    with pytest.raises(ValueError, match="begins below 0"):
        functions.choose_stretch(entry, 1, 100, -1, 200, 1_000, 10)
    room = bytearray(91)
    for count, at, size_bytes in ((-1, 0, 0), (0, 0, -1), (1, -1, 91), (1, 0, 92), (1, 1, 91)):
        with pytest.raises(ValueError, match="no such room"):
            functions.join_records(bytes(91), 5, count, entry, room, at, size_bytes)
    assert functions.join_records(bytes(91), 5, 1, entry, room, 0, 91) == 0
    assert functions.join_records(bytes(91), 6, 1, entry, room, 0, 91) == 0
    assert functions.join_records(bytes(91), 5, 2, entry, room, 0, 91) == 0


@needs_library
def test_lists_of_odd_messages_are_the_requests_of_the_other_twin() -> None:
    found = [mutated_lists.compare(seed) for seed in range(120)]
    assert 20 < sum(map(bool, found)) < 100
    assert max(found) > 1_000


@needs_library
def test_messages_of_odd_pulls_are_those_of_the_other_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    use_twin("compiled", monkeypatch)
    found = [mutated_messages.compare(seed) for seed in range(400)]
    assert 100 < sum(map(bool, found)) < 350
    assert max(found) == 20


@needs_library
def test_messages_that_cannot_be_made_are_kept_nowhere(functions: Library) -> None:
    class Odd:
        """Fails at an attribute of the second message."""

        fails_at = ""

        def __setattr__(self, name: str, value: object) -> None:
            seen.append(name)
            if seen.count(name) == 2 and name == self.fails_at:
                raise KeyError(name)
            object.__setattr__(self, name, value)

    pull, origin, tags = b"".join(records(3)), object(), frozenset("a")
    seen = list[str]()

    def refuse(message_type: Any, given: Any) -> None:
        with suppress(TypeError, AttributeError, KeyError):
            functions.make_messages(pull, message_type, origin, given)

    objects = [pull, origin, Odd, tags]
    references = [sys.getrefcount(each) for each in objects]
    for Odd.fails_at in ("_begin", "_origin", "queue_offset", "size_bytes"):
        seen.clear()
        refuse(Odd, frozenset())
        assert seen.count("_begin") == 2
    for kind, given in ((None, tags), (int, frozenset()), (Odd, None), (Odd, 5), (type, tags)):
        refuse(kind, given)
    given = None
    Odd.fails_at = ""
    made, end = functions.make_messages(pull, Odd, origin, frozenset())
    assert (len(made), end) == (3, len(pull))
    assert sys.getrefcount(made[0]._origin) > references[1]
    del made
    assert [sys.getrefcount(each) for each in objects] == references


@needs_library
def test_a_record_that_is_decoded_is_kept_nowhere(functions: Library) -> None:
    [pull], text = records(1), "address" * 9
    hosts: list[Any] = [lambda _: text, lambda _: None, {}.__getitem__, None]
    references = sys.getrefcount(pull), sys.getrefcount(text)
    for host_text in hosts:
        for _ in range(10):
            with suppress(KeyError, TypeError):
                functions.decode_record(pull, 0, host_text)
    assert functions.decode_record(pull, 0, hosts[0])[8][0] is text
    assert functions.decode_record(pull, -1, hosts[0]) == ()
    assert functions.decode_record(pull, 1, hosts[0]) == ()
    assert (sys.getrefcount(pull), sys.getrefcount(text)) == references


@needs_library
def test_a_room_has_the_size_that_was_asked_for(functions: Library) -> None:
    for size_bytes in (0, 1, 1_000_000):
        room = functions.make_room(size_bytes)
        assert type(room) is bytearray and len(room) == size_bytes
        room[:] = bytes(size_bytes)
        assert room == bytes(size_bytes)
    with pytest.raises(ValueError, match="fewer than 0"):
        functions.make_room(-1)
    with pytest.raises(MemoryError):
        functions.make_room(1 << 62)


@needs_library
def test_calls_keep_nothing(functions: Library) -> None:
    chunks = list(islice(MutatedSends(3), 50))

    def call() -> None:
        for chunk in chunks:
            functions.read_sends(chunk, 0, 16, 16_384, 16_384, 8_192)
            with suppress(ValueError):
                encode(functions, chunk=chunk, out=bytearray())
        encode(functions)
        functions.encode_responses(b"\0\0\0\0", b",", STORED.pack(1, 2, 3, 4))
        functions.choose_stretch(bytes(20), 1, 100, 0, 200, 1_000, 10)
        functions.join_records(bytes(91), 0, 1, bytes(20), bytearray(91), 0, 91)
        functions.make_room(100)

    call()
    references = [sys.getrefcount(chunk) for chunk in chunks]
    tracemalloc.start()
    call()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(20):
        call()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 2_000
    assert [sys.getrefcount(chunk) for chunk in chunks] == references


@needs_library
def test_a_list_that_is_encoded_is_kept_nowhere(functions: Library) -> None:
    tags, around = ["tag-a", "tag-b", "tag-c"], (b"before" * 9, b"behind" * 9)
    messages = [Message("orders", b"body" * 9, each) for each in tags]
    keys = ["key" * 9 for _ in tags]
    objects = [*tags, around, *around, *messages, *(each.body for each in messages), *keys]

    def call(count_max: int, bytes_max: int, find_around: Any) -> None:
        sample = Message("", b"")
        given = messages, keys, sample, "orders", find_around, 0, count_max, bytes_max, 100
        with suppress(ValueError, KeyError):
            functions.encode_list(*given)

    references = [sys.getrefcount(each) for each in objects]
    for _ in range(10):
        call(3, 10_000, lambda _: around)
        call(1, 10_000, lambda _: around)
        call(3, 300, lambda _: around)
        call(3, 10_000, lambda given: around if given != "tag-b" else None)
        call(3, 10_000, lambda given: {"tag-a": around}[given])
        call(3, 10_000, lambda given: (around[0], given))
    assert [sys.getrefcount(each) for each in objects] == references


def test_the_module_is_the_one_that_is_loaded() -> None:
    if CHOICE.is_compiled:
        assert import_module("wakelog.compiled.functions") is CHOICE.library
