"""Tests of settings as text; the updates are tried over the configurations that have live keys."""

import pytest

from tests.broker.harness import settings
from tests.nameserver.harness import make_config
from wakelog.broker.config import check_value
from wakelog.broker.processors.config import LIVE_KEYS
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.storage.config import BrokerRole, StoreConfig
from wakelog.storage.errors import IllegalConfiguration
from wakelog.storage.settings_text import (
    BODY_BYTES_MAX,
    WithoutEffect,
    decode_settings,
    ignored_remark,
    keys_without_effect,
    parse_properties,
    read_settings,
    settings_of,
    settings_text,
    shown_defaults,
    update_settings,
)


def test_properties_are_read_as_java_reads_them() -> None:
    text = "a : 1\n! comment\nb\\ c=\\u0041\nd=x \\\n   y"
    assert parse_properties(text) == {"a": "1", "b c": "A", "d": "x y"}


def test_text_that_is_not_properties_is_refused_by_its_name() -> None:
    with pytest.raises(IllegalConfiguration, match=r"the body=text: .* Java properties"):
        parse_properties("a=\\u12", name="the body", what="text")


@pytest.mark.parametrize("body", [b"\xff\xfe=1", b"a=" + b"1" * BODY_BYTES_MAX])
def test_a_body_that_is_no_text_or_too_long_is_refused(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_settings(body)


def test_keys_of_other_objects_are_left_alone() -> None:
    given = {"storePathRootDir": "/s", "brokerRole": "SLAVE", "brokerName": "broker-a"}
    found = read_settings(StoreConfig, given)
    assert found.broker_role is BrokerRole.SLAVE
    shown = settings_of(found)
    assert (shown["brokerRole"], shown["duplicationEnable"]) == ("SLAVE", "false")
    assert "storePathCommitLog" not in shown


def test_the_text_has_one_key_a_line() -> None:
    assert settings_text({"b": "2", "a": "1"}) == "a=1\nb=2\n"
    assert "orderMessageEnable=false\n" in settings_text(settings_of(make_config()))


def test_a_row_of_keys_without_effect_has_defaults() -> None:
    table = keys_without_effect({"idle": "a=1 b=", "absent": "c"})
    assert table["b"] == WithoutEffect("", "idle")
    assert table["c"] == WithoutEffect(None, "absent")
    assert shown_defaults(table) == {"a": "1", "b": ""}


def test_each_ignored_key_is_said_to_wait_for_a_start_or_for_nothing() -> None:
    remark = ignored_remark(("a", "b", "c", "d"), "broker", {"a", "b"}, {"c"})
    expected = "set at start: a, b; without effect here: c; unknown: d"
    assert remark == f"not changed while the broker runs, {expected}"
    assert ignored_remark(("d",), "broker", {"a"}, {"c"}).endswith("runs, unknown: d")


def test_live_keys_are_applied_and_the_others_named() -> None:
    config = settings().broker
    given = {"traceOn": "false", "rocketmqHome": "/evil", "nonsense": "1"}
    update = update_settings([config], given, LIVE_KEYS, check_value)
    assert update == (("traceOn",), ("nonsense", "rocketmqHome"))
    assert config.trace_on is False


@pytest.mark.parametrize("wrong", ["x", "99"])
def test_one_wrong_value_leaves_everything_as_it_was(wrong: str) -> None:
    config = settings().broker
    given = {"traceOn": "false", "brokerPermission": wrong}
    with pytest.raises(IllegalConfiguration, match="brokerPermission"):
        update_settings([config], given, LIVE_KEYS, check_value)
    assert config.trace_on is True
