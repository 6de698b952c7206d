"""A run of plain sends and the same sends one by one: log, tables, counts and answers are alike."""

from collections import Counter
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from tests.broker.access.requests import access_control
from tests.broker.harness import send_fields
from tests.broker.processors.send_side import (
    ACCOUNTS,
    MODES,
    Side,
    mixed_sends,
    rewritten,
    sends,
)
from tests.fakes.logs import SEGMENT_BYTES
from tests.kinds import some_daily
from tests.network.fakes import connect
from tests.twins import twins, use_twin
from wakelog.broker.processors import send_run
from wakelog.network.connection import Connection
from wakelog.network.limits import ServerLimits
from wakelog.network.signing import Credentials, sign
from wakelog.protocol import frame, plain_run
from wakelog.protocol.batch import encode_batch_body
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import make_request
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.frame import FrameDecoder, encode_frame
from wakelog.protocol.send_run import RUN_MESSAGES_MAX


@pytest.fixture(params=twins(), autouse=True)
def _twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    use_twin(request.param, monkeypatch)


def pieces(data: bytes, random: Random) -> list[bytes]:
    bounds = sorted(random.randrange(len(data)) for _ in range(4))
    return [data[begin:end] for begin, end in pairwise([0, *bounds, len(data)])]


@pytest.mark.parametrize("seed", some_daily(3, range(4)))
@pytest.mark.parametrize("mode", MODES)
def test_a_run_leaves_what_single_sends_leave(mode: str, seed: int) -> None:
    random = Random(seed)
    chunks = pieces(b"".join(mixed_sends(random)), random)
    run, single = (
        Side(MODES[mode], gathers_sends=gathers, segment_bytes=SEGMENT_BYTES << 3).receive(
            chunks, in_time=seed % 2 == 0
        )
        for gathers in (True, False)
    )
    for name in single:
        assert run[name] == single[name], name


SENDERS = (
    *(Credentials("admin-key", "admin-secret"), Credentials("narrow-key", "narrow-secret")),
    *(Credentials("wide-key", "wide-secret", "a token"), Credentials("wide-key", "no-secret")),
    *(Credentials("near-key", "no-secret"), Credentials("none-such", "none"), Credentials()),
)


def signed_sends(random: Random, *, is_mixed: bool) -> list[bytes]:
    """Return signed sends; some are refused, changed behind the signature, or unusual."""
    found = []
    for opaque, encoded in enumerate(mixed_sends(random) if is_mixed else sends(60)):
        try:
            [request] = FrameDecoder().feed(encoded)
        except RemoteProtocolError:
            continue
        request.opaque = opaque
        request = sign(request, random.choices(SENDERS, (9, 3, 3, 1, 2, 1, 1))[0])
        if random.random() < 0.02:
            request.body += b"!"
        if random.random() < 0.02:
            request.ext_fields["Signature"] = random.choice(("", "é", "AAAA"))
        encoded = encode_frame(request)
        if random.random() < 0.05:
            encoded = rewritten(encoded, lambda text: text.replace(b'"d":"4"', b'"d":4'))
        if random.random() < 0.05:
            encoded = rewritten(encoded, lambda text: text.replace(b"/", b"\\/"))
        found.append(encoded)
    return found


@pytest.mark.parametrize("white_list", ["[]", "[10.0.0.*]"])
@pytest.mark.parametrize("is_mixed", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_signed_sends_leave_what_single_ones_leave(
    white_list: str, is_mixed: bool, seed: int
) -> None:
    random = Random(seed)
    text = ACCOUNTS.replace("[]", white_list, 1)
    chunks = pieces(b"".join(signed_sends(random, is_mixed=is_mixed)), random)
    sides = [
        Side(gathers_sends=gathers, segment_bytes=SEGMENT_BYTES << 3, access=access_control(text))
        for gathers in (True, False)
    ]
    run, single = (side.receive(chunks, in_time=True) for side in sides)
    for name in single:
        assert run[name] == single[name], name
    refused = [side.broker.statistics()["access"]["refused_count"] for side in sides]
    assert refused[0] == refused[1]
    assert (refused[0] > 0) == (white_list == "[]")


def test_a_run_of_an_account_is_one_piece_of_work() -> None:
    side = Side(access=access_control(ACCOUNTS))
    sender = Credentials("narrow-key", "narrow-secret")
    frames = []
    for encoded in sends(20):
        [request] = FrameDecoder().feed(encoded)
        frames.append(encode_frame(sign(request, sender)))
    found = side.receive([b"".join(frames)], in_time=True)
    assert side.runs == [RUN_MESSAGES_MAX, 20 - RUN_MESSAGES_MAX]
    assert [each.code for each in found["answers"]] == [ResponseCode.SUCCESS] * 20


def test_what_a_run_creates_one_after_the_other_is_registered_one_after_the_other() -> None:
    frames = [sends(1, b=f"new-{number}")[0] for number in range(4)]
    run, single = (
        Side(gathers_sends=gathers).receive([b"".join(frames)], in_time=True)
        for gathers in (True, False)
    )
    assert run == single
    assert [each.code for each in run["answers"]] == [ResponseCode.SUCCESS] * 4


def test_a_malformed_header_closes_the_connection_after_the_sends_before_it() -> None:
    broken = rewritten(sends(1)[0], lambda text: text[:-1])
    chunk = b"".join((*sends(5), broken, *sends(3)))
    run, single = (
        Side(gathers_sends=gathers).receive([chunk], in_time=True) for gathers in (True, False)
    )
    assert run == single
    assert not run["open"] and run["queues"]["T", 0] == 6


def test_sends_that_come_together_are_few_runs() -> None:
    side = Side()
    found = side.receive([b"".join(sends(40))], in_time=True)
    assert side.runs == [RUN_MESSAGES_MAX, RUN_MESSAGES_MAX, 8]
    assert found["queues"]["T", 0] == 41
    assert [each.code for each in found["answers"]] == [ResponseCode.SUCCESS] * 40


def test_a_send_alone_is_a_run_in_c_only() -> None:
    side = Side()
    assert len(side.receive(sends(1), in_time=True)["answers"]) == 1
    assert side.runs == ([1] if frame.read_run is not plain_run.read_run else [])


def test_a_run_in_c_is_longer_after_one_that_was_plain() -> None:
    side = Side()
    side.receive([b"".join(sends(20))], in_time=True)
    side.runs.clear()
    side.receive([b"".join(sends(100))], in_time=True)
    is_compiled = frame.read_run is not plain_run.read_run
    assert side.runs == ([64, 36] if is_compiled else [*[RUN_MESSAGES_MAX] * 6, 4])
    side.receive([b"".join((*sends(3), *sends(1, i="DELAY\x012")))], in_time=True)
    side.runs.clear()
    side.receive([b"".join(sends(20))], in_time=True)
    assert side.runs == [RUN_MESSAGES_MAX, 4]


def assert_both_ways_leave_the_same(mode: str, chunks: list[bytes]) -> None:
    """Give chunks to a broker that gathers sends and to one that does not, and compare them."""
    run, single = (
        Side(MODES[mode], gathers_sends=gathers, segment_bytes=SEGMENT_BYTES << 3).receive(
            chunks, in_time=True
        )
        for gathers in (True, False)
    )
    for name in single:
        if name != "answers":  # their numbers repeat
            assert run[name] == single[name], name
    assert Counter(map(repr, run["answers"])) == Counter(map(repr, single["answers"]))


@pytest.mark.parametrize("mode", MODES)
def test_long_runs_leave_what_single_sends_leave(mode: str) -> None:
    mixed = [*sends(130), *sends(1, i="DELAY\x012"), *sends(90, e="1"), *sends(40, e="9")]
    chunks = [b"".join(sends(20)), b"".join(mixed), b"".join(sends(150, e="2", i="a\x01b"))]
    assert_both_ways_leave_the_same(mode, chunks)


def test_a_run_whose_write_fails_is_not_acknowledged() -> None:
    side = Side()
    side.fs.fail("pwritev")
    found = side.receive([b"".join(sends(20))], in_time=True)
    assert [each.code for each in found["answers"]] == [ResponseCode.SERVICE_NOT_AVAILABLE] * 20
    assert [each.opaque for each in found["answers"]] == list(range(20))


def test_a_run_that_waited_too_long_is_refused_each_by_itself() -> None:
    side = Side()
    side.connection.data_received(b"".join(sends(20)))
    side.clock.spend(1.0)
    found = side.receive([], in_time=True)
    assert [each.code for each in found["answers"]] == [ResponseCode.SYSTEM_BUSY] * 20
    assert side.runs == []


def test_what_raises_after_the_messages_were_stored_answers_each_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    side = Side()

    def fail(*_: object) -> None:
        raise RuntimeError("no id")

    monkeypatch.setattr(send_run, "message_id_begin", fail)
    found = side.receive([b"".join(sends(3))], in_time=True)
    assert [each.code for each in found["answers"]] == [ResponseCode.SYSTEM_ERROR] * 3
    assert found["queues"]["T", 0] == 4


def batches(count: int, size: int, messages_count: int = 32) -> list[bytes]:
    body = encode_batch_body([(0, b"x" * size, b"TAGS\x01a")] * messages_count)
    fields = send_fields(m="true", i="WAIT\x01true")
    return [encode_frame(make_request(320, fields, body, opaque=opaque)) for opaque in range(count)]


def test_batches_that_come_together_are_few_runs() -> None:
    side = Side()
    found = side.receive([b"".join(batches(20, 1_024))], in_time=True)
    assert side.runs == [8, 8, 4]
    assert found["queues"]["T", 0] == 1 + 20 * 32
    assert [each.code for each in found["answers"]] == [ResponseCode.SUCCESS] * 20
    assert found["requests"] == {320: 20}


@pytest.mark.parametrize("mode", MODES)
def test_batches_leave_what_single_requests_leave(mode: str) -> None:
    chunks = [b"".join((*batches(9, 10), *batches(3, 900), *sends(3), *batches(2, 1, 300)))]
    assert_both_ways_leave_the_same(mode, chunks)
    assert_both_ways_leave_the_same(mode, [b"".join(batches(2, 1_024, 500))])


def test_others_are_answered_before_a_run_with_a_large_batch_and_it_ends_the_turn() -> None:
    side = Side(segment_bytes=1 << 23)
    other = Connection(side, ServerLimits(), clock_seconds=side.clock, gathers_sends=True)
    transport = connect(other)
    side.receive(batches(1, 1), in_time=True)  # the segment's first blocks are reserved
    side.runs, answered = [], list[int]()
    process_run = side.process_run

    def watch(*given: Any) -> Any:
        answered.append(len(FrameDecoder().feed(bytes(transport.taken))))
        return process_run(*given)

    side.turn._process_run = watch
    side.connection.data_received(b"".join(batches(2, 1_100, 1_000)))
    other.data_received(b"".join(sends(2, e="1")))
    side.loop.turn_over()
    assert (side.runs, answered) == ([2, 1], [0, 2])
    side.loop.run_until_quiet()
    assert (side.runs, answered) == ([2, 1, 1], [0, 2, 2])


def test_connections_take_turns_after_each_run() -> None:
    side = Side()
    other = Connection(side, ServerLimits(), clock_seconds=side.clock, gathers_sends=True)
    transport = connect(other)
    side.connection.data_received(b"".join(sends(5 * RUN_MESSAGES_MAX)))
    other.data_received(b"".join(sends(2, e="1")))
    side.loop.run_until_quiet()
    assert side.runs[:2] == [RUN_MESSAGES_MAX, 2]
    assert len(FrameDecoder().feed(bytes(transport.taken))) == 2
