"""Lanes as tables: what is offered, what comes out, in which order, and what is refused."""

import pytest

from wakelog.network.lanes import LARGE_BYTES, InLane, Lanes, LaneSpec, Offer
from wakelog.protocol.command import RemotingCommand

SEND, PULL, BEAT, OTHER = 10, 11, 34, 999


def spec(name: str, **changes: float | None) -> LaneSpec:
    fields: dict[str, float | None] = {"capacity_count": 4, "weight": 2, "crowded_count": 100}
    return LaneSpec(name=name, **(fields | changes))  # type: ignore[arg-type]


def make_lanes(*specs: LaneSpec, bytes_max: int = 1_000_000) -> Lanes[str]:
    chosen = specs or (
        spec("send", wait_seconds_max=0.2),
        spec("pull", wait_seconds_max=5.0),
        spec("admin"),
    )
    names = {lane.name for lane in chosen}
    lane_of_code = {SEND: "send", PULL: "pull", BEAT: "heartbeat"}
    return Lanes(
        chosen,
        lane_of_code={code: name for code, name in lane_of_code.items() if name in names},
        default_lane=chosen[-1].name,
        bytes_max=bytes_max,
    )


def waiting(
    code: int,
    *,
    opaque: int = 0,
    since: float = 0.0,
    owner: str = "a",
    size: int = 10,
    count: int = 1,
) -> InLane[str]:
    return InLane(owner, RemotingCommand(code, opaque), since, size, count)


def take_all(lanes: Lanes[str]) -> list[tuple[int, int]]:
    taken = []
    while (one := lanes.take()) is not None:
        taken.append((one.request.code, one.request.opaque))
    lanes.validate()
    return taken


def test_requests_of_one_lane_leave_in_order() -> None:
    lanes = make_lanes()
    for opaque in range(4):
        assert lanes.offer(waiting(SEND, opaque=opaque)) is Offer.ACCEPTED
    assert take_all(lanes) == [(SEND, 0), (SEND, 1), (SEND, 2), (SEND, 3)]
    assert (lanes.waiting_count, lanes.waiting_bytes) == (0, 0)


def test_owners_take_turns_with_one_request_each() -> None:
    lanes = make_lanes(spec("send", capacity_count=2_000, weight=32), spec("admin"))
    for opaque in range(1_000):
        lanes.offer(waiting(SEND, opaque=opaque, owner="flood"))
    assert lanes.take() is not None
    lanes.offer(waiting(SEND, opaque=5_000, owner="a"))
    lanes.offer(waiting(SEND, opaque=5_001, owner="a"))
    lanes.offer(waiting(SEND, opaque=6_000, owner="b"))
    lanes.validate()
    opaques = [opaque for _, opaque in take_all(lanes)]
    assert opaques[:6] == [1, 5_000, 6_000, 2, 5_001, 3]
    assert [one for one in opaques if one < 1_000] == list(range(1, 1_000))


def test_small_requests_wait_for_one_large_one_in_a_round() -> None:
    lanes = make_lanes(spec("send", capacity_count=100, weight=4), spec("admin"))
    for owner in "abcd":
        lanes.offer(waiting(SEND, opaque=ord(owner), owner=owner, size=LARGE_BYTES))
    for opaque in range(5):
        lanes.offer(waiting(SEND, opaque=opaque, owner="small"))
    lanes.validate()
    assert [opaque for _, opaque in take_all(lanes)] == [0, 1, 2, 97, 3, 4, 98, 99, 100]


def test_what_stands_for_several_counts_as_many_and_is_taken_whole() -> None:
    lanes = make_lanes(spec("send", capacity_count=20, weight=8), spec("admin"))
    assert lanes.offer(waiting(SEND, opaque=1, count=16)) is Offer.ACCEPTED
    assert lanes.offer(waiting(SEND, opaque=2, count=5)) is Offer.REFUSED
    assert lanes.offer(waiting(SEND, opaque=3, count=4, owner="b")) is Offer.ACCEPTED
    assert lanes.offer(waiting(OTHER, opaque=4)) is Offer.ACCEPTED
    lanes.validate()
    counts = lanes.statistics(0.0)["send"]
    assert (counts.depth_count, counts.refused_count) == (20, 5)
    # It has more than the weight of its lane, so its round is over.
    assert take_all(lanes) == [(SEND, 1), (OTHER, 4), (SEND, 3)]
    assert lanes.statistics(0.0)["send"].taken_count == 20


def test_among_runs_a_large_request_is_the_last_one_of_a_round() -> None:
    lanes = make_lanes(spec("send", capacity_count=200, weight=32), spec("admin"))
    lanes.offer(waiting(SEND, opaque=0, owner="large", size=LARGE_BYTES))
    for opaque in range(1, 5):
        lanes.offer(waiting(SEND, opaque=opaque, owner=f"{opaque}", count=16))
    lanes.offer(waiting(SEND, opaque=5, owner="large too", size=LARGE_BYTES))
    assert [opaque for _, opaque in take_all(lanes)] == [1, 0, 2, 5, 3, 4]


def test_what_is_held_waits_until_it_is_released_in_its_order() -> None:
    lanes = make_lanes(spec("send", capacity_count=9, wait_seconds_max=0.2), spec("admin"))
    for opaque, owner in enumerate(["a", "a", "b", "a"]):
        lanes.offer(waiting(SEND, opaque=opaque, owner=owner))
    first = lanes.take()
    assert first is not None and first.request.opaque == 0
    lanes.hold("a", SEND)
    assert (lanes.waiting_count, lanes.waiting_bytes) == (1, 10)
    assert lanes.offer(waiting(SEND, opaque=4, owner="a")) is Offer.HELD
    assert lanes.offer(waiting(OTHER, opaque=5, owner="a")) is Offer.ACCEPTED
    assert take_all(lanes) == [(SEND, 2), (OTHER, 5)]
    assert lanes.expire(9.0) == []
    lanes.release("a", SEND, 9.0)
    assert (lanes.waiting_count, lanes.waiting_bytes) == (3, 30)
    assert lanes.expire(9.1) == [], "it waits in the lane since its release"
    assert take_all(lanes) == [(SEND, 1), (SEND, 3), (SEND, 4)]
    lanes.hold("a", SEND)
    lanes.release("a", SEND, 10.0)
    assert lanes.waiting_count == 0


def test_a_round_that_is_ended_goes_on_with_the_other_lanes() -> None:
    lanes = make_lanes(spec("send", weight=9), spec("pull", weight=9, yields=True))
    for opaque in range(2):
        lanes.offer(waiting(PULL, opaque=opaque))
    first = lanes.take()
    assert first is not None and first.request.opaque == 0 and lanes.yields
    lanes.end_round()
    lanes.offer(waiting(SEND, opaque=7))
    second = lanes.take()
    assert second is not None and second.request.code == SEND and not lanes.yields
    assert take_all(lanes) == [(PULL, 1)]


def test_a_round_takes_each_lane_by_its_weight() -> None:
    lanes = make_lanes(spec("send", weight=2), spec("pull", weight=1), spec("admin", weight=1))
    for opaque in range(4):
        lanes.offer(waiting(SEND, opaque=opaque))
    for code in (PULL, OTHER):
        lanes.offer(waiting(code, opaque=0))
        lanes.offer(waiting(code, opaque=1))
    codes = [code for code, _ in take_all(lanes)]
    assert codes == [SEND, SEND, PULL, OTHER, SEND, SEND, PULL, OTHER]


def test_a_busy_lane_does_not_starve_one_that_fills_meanwhile() -> None:
    lanes = make_lanes(spec("send", capacity_count=100, weight=3), spec("admin", weight=1))
    for opaque in range(10):
        lanes.offer(waiting(SEND, opaque=opaque))
    assert lanes.take() is not None
    lanes.offer(waiting(OTHER))
    codes = [code for code, _ in take_all(lanes)]
    assert codes.index(OTHER) == 2


def test_unknown_codes_wait_in_the_default_lane() -> None:
    lanes = make_lanes()
    lanes.offer(waiting(OTHER))
    assert lanes.statistics(0.0)["admin"].depth_count == 1
    assert lanes.depth(OTHER) == 1
    assert lanes.depth(SEND) == 0


@pytest.mark.parametrize(
    ("capacity", "offered", "expected"),
    [
        (1, 2, [Offer.ACCEPTED, Offer.REFUSED]),
        (2, 2, [Offer.ACCEPTED, Offer.ACCEPTED]),
        (2, 4, [Offer.ACCEPTED, Offer.ACCEPTED, Offer.REFUSED, Offer.REFUSED]),
    ],
)
def test_over_the_capacity_is_refused(capacity: int, offered: int, expected: list[Offer]) -> None:
    lanes = make_lanes(spec("send", capacity_count=capacity), spec("admin"))
    assert [lanes.offer(waiting(SEND)) for _ in range(offered)] == expected
    assert lanes.offer(waiting(OTHER)) is Offer.ACCEPTED
    statistics = lanes.statistics(0.0)["send"]
    assert statistics.depth_count == min(capacity, offered)
    assert statistics.refused_count == expected.count(Offer.REFUSED)
    lanes.validate()


@pytest.mark.parametrize(
    ("now", "expired_opaques", "waited_ms"),
    [
        (0.1, [], []),
        (0.1999, [], []),
        (0.2, [0], [200]),
        (0.25, [0], [250]),
        (0.31, [0, 1], [310, 210]),
        (9.0, [0, 1, 2], [9000, 8900, 8800]),
    ],
)
def test_the_head_of_a_lane_expires(
    now: float, expired_opaques: list[int], waited_ms: list[int]
) -> None:
    lanes = make_lanes()
    for opaque, since in enumerate((0.0, 0.1, 0.2)):
        lanes.offer(waiting(SEND, opaque=opaque, since=since))
    lanes.offer(waiting(OTHER, since=0.0))
    expired = lanes.expire(now)
    assert [one.waiting.request.opaque for one in expired] == expired_opaques
    assert [one.waited_ms for one in expired] == pytest.approx(waited_ms, abs=1)
    assert [one.left_count for one in expired] == [2, 1, 0][: len(expired)]
    assert lanes.statistics(now)["admin"].depth_count == 1
    assert lanes.statistics(now)["send"].expired_count == len(expired)
    lanes.validate()


def test_a_lane_keeps_its_own_limit_on_waiting() -> None:
    lanes = make_lanes()
    lanes.offer(waiting(PULL, since=0.0))
    assert lanes.expire(4.9) == []
    assert lanes.expire(5.0)[0].waiting.request.code == PULL


def test_a_crowded_lane_names_each_owner_once_when_it_has_room() -> None:
    lanes = make_lanes(spec("send", capacity_count=100, crowded_count=4), spec("admin"))
    offers = [lanes.offer(waiting(SEND, owner=owner)) for owner in "aaabbb"]
    assert offers == [Offer.ACCEPTED] * 4 + [Offer.CROWDED] * 2, "its only request crowds none"
    assert lanes.relieved() == []
    for expected_left in (5, 4, 3):
        lanes.take()
        assert lanes.depth(SEND) == expected_left
        assert lanes.relieved() == []
    lanes.take()
    assert lanes.relieved() == ["b"]
    assert lanes.relieved() == []
    assert lanes.statistics(0.0)["send"].crowded_count == 2
    lanes.validate()


def test_a_crowded_lane_does_not_hold_owners_of_another() -> None:
    lanes = make_lanes(
        spec("send", capacity_count=100, crowded_count=2),
        spec("pull", capacity_count=100, crowded_count=2),
        spec("admin"),
    )
    for code, owner in ((SEND, "a"), (SEND, "a"), (PULL, "b"), (PULL, "b")):
        lanes.offer(waiting(code, owner=owner))
    assert lanes.take() is not None
    assert lanes.relieved() == ["a"]
    lanes.validate()


def test_too_many_bytes_crowd_the_next_owner() -> None:
    lanes = make_lanes(bytes_max=100)
    assert lanes.offer(waiting(SEND, owner="a", size=100)) is Offer.ACCEPTED
    assert lanes.offer(waiting(PULL, owner="b", size=1)) is Offer.CROWDED
    assert lanes.relieved() == []
    assert lanes.take() is not None
    assert lanes.relieved() == ["b"]


def test_the_head_wait_is_that_of_the_oldest_request() -> None:
    lanes = make_lanes()
    assert lanes.statistics(9.0)["send"].head_wait_seconds == 0.0
    lanes.offer(waiting(SEND, since=1.0))
    lanes.offer(waiting(SEND, since=2.0))
    lanes.offer(waiting(SEND, since=3.0, owner="b"))
    assert lanes.statistics(4.0)["send"].head_wait_seconds == 3.0
    lanes.take()
    assert lanes.statistics(4.0)["send"].head_wait_seconds == 2.0, "it is not the next one"


def test_limits_on_waiting_may_change_and_nothing_else() -> None:
    lanes = make_lanes(spec("send", wait_seconds_max=0.2), spec("admin"))
    lanes.offer(waiting(SEND))
    lanes.offer(waiting(OTHER))
    assert not lanes.expire(0.1)
    lanes.change_waits([spec("send"), spec("admin", wait_seconds_max=0.3, capacity_count=1)])
    assert [one.waiting.request.code for one in lanes.expire(0.4)] == [OTHER]
    lanes.change_waits([spec("send", wait_seconds_max=0.3), spec("admin")])
    assert [one.waiting.request.code for one in lanes.expire(0.4)] == [SEND]
    assert [lanes.offer(waiting(OTHER)) for _ in range(2)] == [Offer.ACCEPTED] * 2
    lanes.validate()
