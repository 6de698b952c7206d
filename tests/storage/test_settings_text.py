"""Tests of settings as text."""

import pytest

from tests.nameserver.harness import make_config
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.storage.config import BrokerRole, StoreConfig
from wakelog.storage.errors import IllegalConfiguration
from wakelog.storage.settings_text import (
    BODY_BYTES_MAX,
    WithoutEffect,
    decode_settings,
    keys_without_effect,
    parse_properties,
    read_settings,
    settings_of,
    settings_text,
    shown_defaults,
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
