"""What a scrape under the names of elsewhere reads of a broker."""

from typing import Any

import pytest

from tests.broker.harness import NOW_MS, FakeChannel, Harness
from wakelog.broker import scrape_values
from wakelog.broker.broker_stats import MINUTE
from wakelog.broker.scrape_values import begin_reading, identity_of
from wakelog.protocol.names import is_own_group
from wakelog.storage.file_system import DiskUsage
from wakelog.telemetry.pieces import add_piece


def read(harness: Harness) -> dict[str, Any]:
    """Return all pieces, joined as a scrape does."""
    state = harness.broker.state
    found: dict[str, Any] = {}
    for piece in begin_reading(state, harness.now_ms)():
        add_piece(found, piece)
    return found


def sampled(harness: Harness) -> None:
    """Take seven samples of a minute, in which each second has a message of T for g."""
    traffic = harness.broker.state.traffic
    traffic.count_put("T", 1, 50)
    traffic.count_get("T", "g", 1, 50)
    traffic.count_send_back("T", "g")
    for sample in range(7):
        traffic.sample(MINUTE, NOW_MS + sample * 10_000)
        traffic.count_put("T", 10, 500)
        traffic.count_get("T", "g", 10, 500)
        traffic.count_send_back("T", "g")


@pytest.mark.parametrize(("role", "said"), [("ASYNC_MASTER", "master"), ("SLAVE", "slave")])
def test_a_broker_says_what_it_is(role: str, said: str) -> None:
    harness = Harness(brokerRole=role, brokerId=str(int(said == "slave")), brokerIP1="10.0.0.1")
    identity = identity_of(harness.broker.state)
    assert (identity["role"], identity["address"]) == (said, "10.0.0.1:10911")
    assert identity["started_ms"] == str(NOW_MS)
    assert all(isinstance(text, str) for text in identity.values())


def test_texts_of_code_28_become_numbers(harness: Harness) -> None:
    root = harness.settings.store.paths.root
    harness.store.usages = {root: DiskUsage(total_bytes=1_000, used_bytes=600, free_bytes=400)}
    harness.send("T", b"body")
    harness.now_ms += 1_500
    runtime = read(harness)["runtime"]
    assert runtime["putMessageTimesTotal"] == 1
    assert runtime["putTps"] == [0, 0, 0]
    assert runtime["put_times"] == [0] * 13
    assert runtime["disk"] == {"total": 1_000, "free": 400}
    assert "brokerVersionDesc" not in runtime


def test_a_store_without_a_message_has_kept_none(harness: Harness) -> None:
    assert read(harness)["runtime"]["reserved_ms"] == 0


def test_rates_are_of_the_last_minute(harness: Harness) -> None:
    sampled(harness)
    minute = read(harness)["minute"]
    assert minute["put_messages"] == minute["get_messages"] == 1
    traffic: dict[str, Any] = {}
    for piece in harness.broker.state.traffic.minute().pieces():
        add_piece(traffic, piece)
    assert traffic["put_by_topic"] == {"T": (1, 50)}
    assert traffic["get_by_topic_and_group"] == {"T": {"g": (1, 50)}}
    assert traffic["send_back_by_topic_and_group"] == {"T": {"g": [6]}}


def test_connections_are_counted_by_what_they_are(harness: Harness) -> None:
    for number in (1, 2):
        channel = FakeChannel(number, remote_port=number)
        harness.beat("g", channel=channel, client_id=f"c{number}", message_model="BROADCASTING")
        harness.beat_producer("p", channel)
    harness.beat_producer("q", FakeChannel(2, remote_port=2))
    members = read(harness)["members"]
    assert members["groups"] == {"g": {"online_count": 2, "model": "0"}}
    assert members["addresses"] == {"g": {"127.0.0.9:1,127.0.0.9:2": {"c1,c2": 2}}}
    assert members["consumer_connections"] == {"g": {"push": {"java": {"v4_9_3": 2}}}}
    assert members["producers"] == {"p": 2, "q": 1}
    assert members["producer_connections"] == {"java": {"v4_9_3": 2}}


def test_groups_and_addresses_are_bounded(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrape_values, "GROUPS_MAX", 1)
    monkeypatch.setattr(scrape_values, "ADDRESSES_MAX", 1)
    for number in (1, 2):
        harness.beat("g", channel=FakeChannel(number), client_id=f"c{number}")
    harness.beat("h", channel=FakeChannel(1), client_id="c1")
    found = read(harness)
    members = found["members"]
    assert found["queues"]["left_out"] == {"members": 1}
    assert members["groups"].keys() == {"g"}
    assert members["addresses"] == {"g": {"127.0.0.9:40001": {"c1": 2}}}


def test_rocketmqs_own_names_are_said(harness: Harness) -> None:
    system = read(harness)["system"]
    for kind, is_own in (
        ("topics", harness.broker.state.topics.is_system),
        ("groups", is_own_group),
    ):
        own = system[kind]
        for name in (*own["names"], f"{own['prefix']}x"):
            assert is_own(name), (kind, name)
    assert "SCHEDULE_TOPIC_XXXX" in system["topics"]["names"]
    assert "TOOLS_CONSUMER" in system["groups"]["names"]
