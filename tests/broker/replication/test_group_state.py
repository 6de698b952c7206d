"""The state of a group in the register: it reads what it wrote, and nothing else."""

import msgspec
import pytest

from wakelog.broker.replication.group_state import (
    EPOCHS_MAX,
    REPLICAS_MAX,
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


HIGHEST_PORT = ReplicaAddress("a:65535", "a:0")


@pytest.mark.parametrize(
    "change",
    [
        {"epoch": EPOCHS_MAX - 1},
        {"loss_epoch": 0, "renewed": 0},
        {"replicas": {1: HIGHEST_PORT, 2: HIGHEST_PORT}},
        {"replicas": dict.fromkeys(range(1, REPLICAS_MAX + 1), HIGHEST_PORT)},
        {"in_sync": frozenset({2})},
    ],
)
def test_a_state_at_the_bounds_of_the_rules_is_read(change: dict[str, object]) -> None:
    state = msgspec.structs.replace(STATE, **change)
    assert decode_state(encode_state(state)) == state


@pytest.mark.parametrize("field", ["epoch", "master", "renewed", "loss_epoch"])
def test_no_number_is_negative(field: str) -> None:
    bad = msgspec.structs.replace(STATE, **{field: -1})
    with pytest.raises(BadGroupState, match="negative"):
        decode_state(encode_state(bad))


def test_each_address_is_host_and_port() -> None:
    for address in ("", "a", ":1", "a:", "a:x", "a b:1", "a:100000", "a:-1"):
        for place in (ReplicaAddress("a:1", address), ReplicaAddress(address, "a:1")):
            bad = msgspec.structs.replace(STATE, replicas=STATE.replicas | {3: place})
            with pytest.raises(BadGroupState, match=f"replica 3 has the address '{address}'"):
                decode_state(encode_state(bad))


def test_the_longest_text_is_read() -> None:
    text = encode_state(STATE)
    assert decode_state(text.ljust(TEXT_BYTES_MAX)) == STATE


def test_one_that_leads_has_a_later_epoch_and_has_renewed() -> None:
    led = STATE.led_by(1, epoch=9, in_sync=frozenset({1}))
    assert (led.master, led.epoch, led.renewed) == (1, 9, STATE.renewed + 1)
    assert led.in_sync == {1}
    assert (led.log_id, led.replicas) == (STATE.log_id, STATE.replicas)
