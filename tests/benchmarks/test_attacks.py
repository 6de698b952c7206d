"""What attackers cost: samples go to their scenes, and what is over a limit is named."""

from collections.abc import Sequence
from functools import partial

import msgspec
import pytest

from benchmarks.attack_floods import LIGHT_QUEUES, floods
from benchmarks.attack_scenes import (
    Target,
    beside_connections,
    fifty_attackers,
    registration,
)
from benchmarks.attacks import (
    Attacked,
    Memory,
    Watched,
    compare,
    over_limit,
    render_page,
    split,
)
from tests.broker.harness import Harness as BrokerHarness
from tests.nameserver.harness import Harness
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.frame import FrameDecoder

OTHERS_COUNT = 40


def watched(number: int, scene: str, p99_ms: float, max_ms: float) -> Watched:
    return Watched(
        side="wakelog", number=number, scene=scene, count=50, p99_ms=p99_ms, max_ms=max_ms
    )


def attacked(*scenes: Watched) -> Attacked:
    return Attacked(
        side="wakelog",
        measured="2026-01-01",
        watched=[watched(0, "sends", 5, 20), watched(1, "routes", 2, 4), *scenes],
        memory=[Memory(role="Broker", before_mib=100, peak_mib=300, after_mib=110)],
        died=[],
        metrics_served=True,
        load_average=1.5,
    )


def test_a_sample_belongs_to_the_scene_in_which_it_was_sent() -> None:
    samples = [(at, float(at), 0) for at in range(6)]
    during, quiet = split(samples, [(1, 3), (4, 5)])
    assert [[sample[0] for sample in some] for some in during] == [[1, 2], [4]]
    assert [sample[0] for sample in quiet] == [0, 3, 5]


@pytest.mark.parametrize(
    ("p99_ms", "max_ms", "is_over"), [(55, 200, False), (56, 60, True), (1, 201, True)]
)
def test_a_scene_is_over_by_its_p99_or_its_greatest(
    p99_ms: float, max_ms: float, is_over: bool
) -> None:
    assert bool(over_limit(attacked(watched(2, "locks", p99_ms, max_ms)))) == is_over


@pytest.mark.parametrize(("p99_ms", "is_over"), [(7.5, False), (7.6, True)])
def test_beside_many_connections_p99_may_be_half_as_much_again(
    p99_ms: float, is_over: bool
) -> None:
    name = beside_connections().name
    assert bool(over_limit(attacked(watched(2, name, p99_ms, 50)))) == is_over


@pytest.mark.parametrize(("p99_ms", "is_over"), [(20, False), (21, True)])
def test_beside_many_attackers_p99_may_be_twice_that_of_rocketmq(
    p99_ms: float, is_over: bool
) -> None:
    name = fifty_attackers().name
    own = attacked(watched(2, name, p99_ms, 50))
    other = msgspec.structs.replace(attacked(watched(2, name, 10, 50)), side="rocketmq")
    [compared] = compare([own, other])
    assert (compared.side, compared.is_over) == ("wakelog", is_over)
    assert f"a p99 of\n{p99_ms:.1f} ms, which is" in render_page([own, other])
    assert compare([own]) == []


@pytest.mark.parametrize(
    ("after_mib", "tables_mib", "is_over"),
    [(120, None, False), (121, None, True), (130, 10, False), (131, 10, True)],
)
def test_tables_that_the_store_keeps_are_no_garbage(
    after_mib: int, tables_mib: int | None, is_over: bool
) -> None:
    memory = Memory(
        role="Broker", before_mib=100, peak_mib=300, after_mib=after_mib, tables_mib=tables_mib
    )
    assert memory.is_over == is_over


def test_registrations_are_those_that_a_name_server_takes() -> None:
    harness = Harness()
    [sound] = FrameDecoder().feed(registration(300, 0))
    assert harness.answered(sound).code == ResponseCode.SUCCESS
    assert len(harness.topics()) == 300
    [bomb] = FrameDecoder().feed(registration(300, 64 << 20))
    assert "16777216 bytes when inflated" in (harness.answered(bomb).remark or "")


def test_floods_are_requests_that_a_broker_takes() -> None:
    harness = BrokerHarness(enableLmq="true", enableMultiDispatch="true")
    taken: list[int] = []

    def answer_all(target: Target, frames: Sequence[bytes]) -> None:
        for [command] in map(FrameDecoder().feed, frames[:3]):
            response = harness.ask(command.code, command.ext_fields, bytes(command.body))
            assert response.code == ResponseCode.SUCCESS, response.remark
            taken.append(command.code)

    for scene in floods():
        play = scene.prepare()
        if isinstance(play, partial):
            answer_all(Target("", ""), play.keywords["frames"])
    assert taken == [RequestCode.SEND_MESSAGE_V2] * 6
    named = harness.store.messages("flooded")[-1].properties_text
    assert named.count("%LMQ%") == LIGHT_QUEUES
