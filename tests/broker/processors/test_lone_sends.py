"""A send that comes alone leaves what it leaves in a turn: log, tables, counts and answers."""

from random import Random
from typing import Any

import pytest

from tests.broker.access.requests import access_control
from tests.broker.harness import NOW_MS
from tests.broker.processors.send_side import ACCOUNTS, MODES, SEND, Side, mixed_sends, sends
from tests.fakes.logs import SEGMENT_BYTES
from tests.kinds import some_daily
from tests.twins import twins, use_twin
from wakelog.actors.broker import requests
from wakelog.broker.processors import send_run
from wakelog.network.turn import CROWD_SECONDS
from wakelog.protocol.codes import ResponseCode


@pytest.fixture(params=twins(), autouse=True)
def _twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    use_twin(request.param, monkeypatch)


@pytest.mark.parametrize("seed", some_daily(2, range(4)))
@pytest.mark.parametrize("mode", MODES)
def test_lone_sends_leave_what_single_sends_leave(
    mode: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "wall_ms", lambda: NOW_MS)
    chunks = mixed_sends(Random(seed))
    lone, single = (
        Side(MODES[mode], gathers_sends=has, has_lone_sends=has, segment_bytes=SEGMENT_BYTES << 3)
        for has in (True, False)
    )
    left = [
        side.receive(chunks, in_time=True, gap_seconds=2 * CROWD_SECONDS) for side in (lone, single)
    ]
    for name in left[1]:
        assert left[0][name] == left[1][name], name
    waits_or_refuses = mode in ("sync flush", "sync master", "multi dispatch", "closed")
    assert lone.lone_sends_count == 0 if waits_or_refuses else lone.lone_sends_count > 40


def test_a_lone_send_whose_write_fails_is_not_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requests, "wall_ms", lambda: NOW_MS)
    side = Side(has_lone_sends=True)
    side.fs.fail("pwritev")
    found = side.receive(sends(2), in_time=True, gap_seconds=2 * CROWD_SECONDS)
    assert [each.code for each in found["answers"]] == [ResponseCode.SERVICE_NOT_AVAILABLE] * 2
    assert side.lone_sends_count == 0 and side._has_failed
    assert found["requests"] == {SEND: 2} and not side.broker.state.uncounted_runs


def test_unsigned_lone_sends_are_refused_under_access_control() -> None:
    side = Side(has_lone_sends=True, access=access_control(ACCOUNTS))
    found = side.receive(sends(2), in_time=True, gap_seconds=2 * CROWD_SECONDS)
    assert all("No accessKey is configured" in str(each.remark) for each in found["answers"])
    assert len(found["answers"]) == 2 and side.lone_sends_count == 0
    assert found["queues"]["T", 0] == 1


def test_a_lone_send_is_timed_to_the_return_of_its_write() -> None:
    side = Side(has_lone_sends=True)
    write = side.store.write_pending

    def slow_write() -> int:
        side.clock.spend(0.004)
        return write()

    side.store.write_pending = slow_write
    side.receive(sends(1), in_time=True)
    assert side._put_seconds == pytest.approx(0.004) and side.lone_sends_count == 1


def test_a_lone_send_that_raises_is_stored_by_its_turn_or_not_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once it is stored, the loop closes its connection: a producer sends it to another broker."""

    def fail(*_: Any, **__: Any) -> None:
        raise ValueError("no encoder")

    side = Side(has_lone_sends=True)
    monkeypatch.setattr(send_run, "record_encoder", fail)
    [answer] = side.receive(sends(1), in_time=True)["answers"]
    assert answer.code == ResponseCode.SUCCESS and side.lone_sends_count == 0
    monkeypatch.undo()
    monkeypatch.setattr(send_run, "RunResponses", fail)
    side.clock.spend(2 * CROWD_SECONDS)
    with pytest.raises(ValueError, match="no encoder"):
        side.connection.data_received(sends(1)[0])
    assert side.store.log.queue_offsets.get(("T", 0)) == 3
