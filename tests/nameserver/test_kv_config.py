"""Values by namespace and key, and the file they live on in."""

from collections.abc import Iterator
from typing import Any

import pytest

from wakelog.nameserver import kv_config
from wakelog.nameserver.kv_config import KvConfig, Undo
from wakelog.protocol import fastjson
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.steps import finish

UPSTREAMS_FILE = '{"configTable":{"ORDER_TOPIC_CONFIG":{"T":"broker-a:4;broker-b:8"},"n":{}}}'
"""As 4.9.3 writes it: one line."""


def values(config: KvConfig, namespace: str) -> Any:
    """Return what a client gets for a namespace, None for nothing."""
    body = finish(config.encoded(namespace))
    return None if body is None else fastjson.loads(body)["table"]


@pytest.fixture
def config() -> Iterator[KvConfig]:
    """Return an empty configuration; its invariants are asserted at the end."""
    made = KvConfig()
    yield made
    made.validate()


def test_a_value_is_put_changed_and_deleted(config: KvConfig) -> None:
    config.put("n", "k", "v")
    config.put("n", "k", "longer value")
    config.put("n", "other", "ü")
    assert config.get("n", "k") == "longer value"
    assert config.statistics() == {
        "namespace_count": 1,
        "key_count": 2,
        "text_bytes": len("nklonger valueother") + 2,
    }
    config.delete("n", "k")
    assert config.get("n", "k") is None
    assert values(config, "n") == {"other": "ü"}


def test_a_namespace_stays_when_its_last_value_goes(config: KvConfig) -> None:
    # 4.9.3 answers code 219 with an empty table then, not with code 22.
    config.put("n", "k", "v")
    config.delete("n", "k")
    assert values(config, "n") == {}
    assert values(config, "never") is None


@pytest.mark.parametrize(
    "changes",
    [
        [("put", "n", "k", "other")],
        [("put", "n", "new", "v"), ("put", "n", "new", "longer")],
        [("put", "new", "k", "v"), ("put", "new", "l", "w")],
        [("delete", "n", "k"), ("put", "n", "k", "again")],
        [("put", "n", "k", "other"), ("delete", "n", "k")],
    ],
)
def test_changes_that_cannot_be_saved_are_undone(
    config: KvConfig, changes: list[tuple[str, ...]]
) -> None:
    config.put("n", "k", "v")
    before, sizes = config.snapshot()(), config.statistics()
    undos: list[Undo] = []
    for verb, *arguments in changes:
        undos.append(getattr(config, verb)(*arguments))
        finish(config.encoded("n"))
    for undo in reversed(undos):
        assert undo is not None
        undo()
    assert (config.snapshot()(), config.statistics()) == (before, sizes)
    config.validate()


def test_what_changes_nothing_has_nothing_to_undo(config: KvConfig) -> None:
    assert config.put("n", "k", "v") is not None
    assert config.put("n", "k", "v") is None
    assert config.delete("n", "absent") is None and config.delete("absent", "k") is None


def test_what_was_changed_again_since_is_not_undone(config: KvConfig) -> None:
    undo = config.put("n", "k", "1")
    config.put("n", "k", "2")
    assert undo is not None
    undo()
    assert config.get("n", "k") == "2"
    config.validate()


def test_the_file_is_4_9_3s_both_ways(config: KvConfig) -> None:
    config.load(UPSTREAMS_FILE)
    assert config.get("ORDER_TOPIC_CONFIG", "T") == "broker-a:4;broker-b:8"
    assert config.snapshot()() == UPSTREAMS_FILE


def test_a_snapshot_is_of_its_moment(config: KvConfig) -> None:
    config.load(UPSTREAMS_FILE)
    encode = config.snapshot()
    config.put("n", "k", "v")
    assert encode() == UPSTREAMS_FILE


@pytest.mark.parametrize("text", ["", "[]", "{", '{"configTable":{"n":"v"}}', "null"])
def test_a_text_that_is_no_configuration_is_refused_whole(config: KvConfig, text: str) -> None:
    config.put("n", "k", "v")
    with pytest.raises(ValueError, match=r"\S"):
        config.load(text)
    assert config.get("n", "k") == "v"


def test_there_is_room_for_so_much(config: KvConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_config, "TEXT_BYTES_MAX", 6)
    config.put("n", "k", "1234")
    config.put("n", "k", "5678")
    for refused in [("n", "k", "12345"), ("n", "l", ""), ("m", "", "")]:
        with pytest.raises(RemoteProtocolError, match="would have 7 bytes, at most 6"):
            config.put(*refused)
    with pytest.raises(ValueError, match="at most 6"):
        config.load('{"configTable":{"n":{"k":"12345"}}}')
    config.delete("n", "k")
    config.put("n", "l", "1234")
    assert values(config, "n") == {"l": "1234"}
