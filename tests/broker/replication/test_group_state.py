"""The state of a group in the register: it reads what it wrote, and nothing else."""

import msgspec
import pytest

from wakelog.broker.replication.group_state import (
    TEXT_BYTES_MAX,
    BadGroupState,
    GroupState,
    ReplicaAddress,
    decode_state,
    encode_state,
)

STATE = GroupState(
    log_id="0123456789abcdef" * 2,
    epoch=3,
    master=2,
    in_sync=frozenset({1, 2}),
    replicas={n: ReplicaAddress(f"h{n}:10911", f"h{n}:10912") for n in (1, 2, 3)},
    renewed=7,
)


def test_a_state_is_read_as_it_was_written() -> None:
    assert decode_state(encode_state(STATE)) == STATE
    first = msgspec.structs.replace(STATE, epoch=0, master=0, in_sync=frozenset(), renewed=0)
    assert decode_state(encode_state(first)) == first


def test_the_text_is_the_same_for_the_same_state() -> None:
    other = msgspec.structs.replace(STATE, in_sync=frozenset({2, 1}))
    assert encode_state(other) == encode_state(STATE)


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"format": 2}, "format 2"),
        ({"log_id": "x"}, "log_id"),
        ({"epoch": -1}, "negative"),
        ({"epoch": 1 << 62}, "higher than any"),
        (
            {"replicas": STATE.replicas | {1: ReplicaAddress("a:1", "a")}},
            "'a', which is no HOST:PORT",
        ),
        ({"replicas": STATE.replicas | {1: ReplicaAddress("a:65536", "a:1")}}, "a:65536"),
        ({"master": 3}, "not in in_sync"),
        ({"master": 0}, "epoch without a master"),
        ({"in_sync": frozenset({2, 4})}, "not there"),
        ({"replicas": {0: ReplicaAddress("a:1", "a:2")}}, "replica ids"),
        ({"replicas": {n: ReplicaAddress("a:1", "a:2") for n in range(1, 18)}}, "at most 16"),
    ],
)
def test_a_state_that_breaks_a_rule_is_refused(change: dict[str, object], cause: str) -> None:
    bad = msgspec.structs.replace(STATE, **change)
    with pytest.raises(BadGroupState, match=cause):
        decode_state(encode_state(bad))


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[]", b"\xff", b"{" * 9000, encode_state(STATE)[:-1]]
)
def test_what_is_no_state_is_refused(text: bytes) -> None:
    with pytest.raises(BadGroupState):
        decode_state(text)


def test_a_text_that_is_too_long_is_refused_unread() -> None:
    with pytest.raises(BadGroupState, match="at most"):
        decode_state(b" " * (TEXT_BYTES_MAX + 1))
