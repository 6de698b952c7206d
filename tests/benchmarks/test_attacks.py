"""What attackers cost: samples go to their scenes, and what is over a limit is named."""

import socket
import struct
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec
import pytest

from benchmarks.attack_floods import LIGHT_QUEUES, flood, floods
from benchmarks.attack_scenes import (
    Target,
    beside_connections,
    fifty_attackers,
    frame,
    of_every_code,
    registration,
    send_all,
)
from benchmarks.attacks import (
    JSON_NAME,
    PAGE_NAME,
    PARTS,
    Attacked,
    Memory,
    Watched,
    compare,
    over_limit,
    render_page,
    scenes_named,
    scenes_of,
    split,
)
from benchmarks.kept import RESULTS, read_kept
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


def test_the_page_has_a_row_for_each_scene() -> None:
    page = render_page([attacked(watched(2, "locks", 60, 70))])
    assert "| locks | 50 | 60.0 | 70.0 | yes |" in page
    assert "| sends | 50 | 5.0 | 20.0 |  |" in page
    assert "| Broker | 100 | 300 | 110 |  |  |" in page


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


def test_a_frame_is_one_that_a_broker_reads() -> None:
    [command] = FrameDecoder().feed(frame(RequestCode.HEART_BEAT, {"a": "b"}, b"body"))
    assert (command.code, command.ext_fields, bytes(command.body)) == (34, {"a": "b"}, b"body")


def test_registrations_are_those_that_a_name_server_takes() -> None:
    harness = Harness()
    [sound] = FrameDecoder().feed(registration(300, 0))
    assert harness.answered(sound).code == ResponseCode.SUCCESS
    assert len(harness.topics()) == 300
    [bomb] = FrameDecoder().feed(registration(300, 64 << 20))
    assert "16777216 bytes when inflated" in (harness.answered(bomb).remark or "")


def test_every_code_has_a_scene_beside_the_known_attacks() -> None:
    names = [scene.name for part in PARTS for scene in scenes_of("wakelog", part)]
    assert len(names) == len(set(names))
    assert len([*of_every_code()]) > OTHERS_COUNT


def test_an_attacker_connects_again_after_a_close() -> None:
    received: list[bytes] = []

    def serve() -> None:
        for number in range(2):
            connection, _ = listening.accept()
            with connection:
                received.append(connection.recv(100))
                if number:  # the first is closed without an answer
                    connection.sendall(struct.pack(">II", 4, 0))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        send_all(f"127.0.0.1:{listening.getsockname()[1]}", [b"one", b"two"])
        thread.join()
    assert received[:2] == [b"one", b"two"]


def test_the_page_that_is_kept_is_drawn_from_its_results() -> None:
    runs = read_kept(RESULTS / JSON_NAME, Attacked)
    path: Path = RESULTS / PAGE_NAME
    assert not runs or path.read_text(encoding="utf-8") == render_page(runs)
    assert not any(run.died for run in runs)


def test_the_page_has_the_minutes_after_which_memory_was_read() -> None:
    assert "| a minute after MiB |" in render_page([attacked()])
    later = msgspec.structs.replace(attacked(), after_minutes=65)
    assert "| 65 minutes after MiB |" in render_page([later])


def test_scenes_are_found_by_a_part_of_their_name() -> None:
    names = [scene.name for scene in scenes_named(["TLS", "SEND_MESSAGE:"])]
    assert names == ["5,000 TLS handshakes begin at once", "SEND_MESSAGE: 17 requests"]
    assert scenes_named(["no such scene"]) == []


def test_a_flood_is_sent_before_its_first_answer_and_read_to_its_last() -> None:
    received: list[bytes] = []

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            while sum(map(len, received)) < 3:
                received.append(connection.recv(100))
            connection.sendall(struct.pack(">II", 4, 0) * 3)
            received.append(connection.recv(100))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        flood(Target(f"127.0.0.1:{listening.getsockname()[1]}", ""), [b"a", b"b", b"c"])
        thread.join()
    assert b"".join(received) == b"abc"


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
