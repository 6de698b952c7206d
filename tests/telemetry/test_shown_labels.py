"""Labels that no path binds, and what then has the same labels."""

from typing import Any

import pytest

from wakelog.telemetry.collector import read_series
from wakelog.telemetry.metric_spec import gauge
from wakelog.telemetry.text_format import Series

MASTER = {"name": "a", "cluster": "c", "address": "10.0.0.1:10911", "role": "master"}


def values(**of_broker: Any) -> dict[str, Any]:
    """Return the statistics of a deployment of a master and its slave, which has the same name."""
    master = {"identity": MASTER, **of_broker}
    slave = {"identity": {**MASTER, "role": "slave"}, **of_broker}
    return {"brokers": {"a": master, "a.1": slave, "away": {}}}


def series(path: str, *shown: str, **of_broker: Any) -> Series:
    return read_series(
        gauge("m", "M.", f"brokers/{{broker}}/{path}", shown=shown), values(**of_broker)
    )


def test_labels_of_a_broker_come_from_its_identity_and_a_slave_is_left_out() -> None:
    found = series("x", "cluster", "broker", "brokerIP", "node_id", x=3)
    assert found == {("c", "a", "10.0.0.1:10911", "a"): 3}


def test_labels_stand_in_the_order_that_is_shown() -> None:
    found = series("kind=k/by/{topic}/{group}", "group", "kind", "topic", by={"T": {"g": 1}})
    assert found == {("g", "k", "T"): 1}


def test_what_has_the_same_labels_is_added_together() -> None:
    other = {"identity": {**MASTER, "name": "b"}, "lag": {"g": 5}}
    both = values(lag={"g": 2})
    both["brokers"]["b"] = other
    spec = gauge("m", "M.", "brokers/{broker}/lag/{group}", shown=("group",))
    assert read_series(spec, both) == {("g",): 7}


@pytest.mark.parametrize(
    ("topic", "group", "is_system", "is_retry"),
    [
        ("T", "g", "false", "false"),
        ("%RETRY%g", "g", "false", "true"),
        ("own", "g", "true", "false"),
        ("T", "CID_own", "true", "false"),
        ("rmq_sys_x", "g", "true", "false"),
        ("T", "CID_RMQ_SYS_x", "true", "false"),
    ],
)
def test_names_say_what_is_rocketmqs_own(
    topic: str, group: str, is_system: str, is_retry: str
) -> None:
    system = {
        "topics": {"names": ["own"], "prefix": "rmq_sys_"},
        "groups": {"names": ["CID_own"], "prefix": "CID_RMQ_SYS_"},
    }
    found = series(
        "lag/{consumer_group}/{topic}",
        "is_system",
        "is_retry",
        system=system,
        lag={group: {topic: 1}},
    )
    assert found == {(is_system, is_retry): 1}


def test_a_group_says_how_many_members_it_has_and_none_if_it_is_away() -> None:
    members = {"groups": {"g": {"online_count": 3, "model": "0"}}}
    labels = ("group", "countOfOnlineConsumers", "msgModel")
    found = series("lag/{group}", *labels, members=members, lag={"g": 1, "h": 2})
    assert found == {("g", "3", "0"): 1, ("h", "0", "1"): 2}
