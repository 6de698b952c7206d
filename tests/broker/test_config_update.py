"""Changing a running broker (reliability: CVE-2023-33246, CVE-2023-37582)."""

import msgspec
import pytest

from tests.broker.harness import settings
from wakelog.broker.config import KEYS_WITHOUT_EFFECT, BrokerConfig
from wakelog.broker.config_file import all_settings
from wakelog.broker.config_update import LIVE_KEYS, properties_text, update_config
from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import IllegalConfiguration

EVERY_KEY = sorted(
    {
        *KEYS_WITHOUT_EFFECT,
        *BrokerConfig.__struct_encode_fields__,
        *StoreConfig.__struct_encode_fields__,
    }
)


@pytest.mark.parametrize("key", sorted(set(EVERY_KEY) - LIVE_KEYS))
def test_a_key_that_is_not_live_changes_nothing(key: str) -> None:
    before = settings()
    update = update_config(before.broker, f"{key}=1")
    assert update.applied == ()
    assert update.ignored == (key,)
    assert all_settings(before) == all_settings(settings())


def test_no_path_command_name_or_address_is_live() -> None:
    suspicious = ("path", "home", "dir", "addr", "ip1", "name", "plugin", "server", "port")
    found = {key for key in LIVE_KEYS if any(word in key.lower() for word in suspicious)}
    assert found == {"registerNameServerPeriod"}  # a number


@pytest.mark.parametrize("key", sorted(LIVE_KEYS))
def test_a_live_key_is_a_number_or_a_switch_and_is_taken(key: str) -> None:
    config = settings().broker
    field = next(f for f in msgspec.structs.fields(config) if f.encode_name == key)
    assert field.type in (int, bool)
    given, expected = ("false", False) if field.type is bool else ("7", 7)
    assert update_config(config, f"{key}={given}").applied == (key,)
    assert getattr(config, field.name) == expected


def test_what_is_live_is_applied_and_the_rest_named() -> None:
    config = settings().broker
    update = update_config(config, "traceOn=false\nrocketmqHome=/evil\nnonsense=1\n")
    assert update.applied == ("traceOn",)
    assert update.ignored == ("nonsense", "rocketmqHome")
    assert config.trace_on is False


@pytest.mark.parametrize(
    "text", ["traceOn=false\nbrokerPermission=x", "traceOn=false\nbrokerPermission=99"]
)
def test_one_wrong_value_leaves_everything_as_it_was(text: str) -> None:
    config = settings().broker
    with pytest.raises(IllegalConfiguration, match="brokerPermission"):
        update_config(config, text)
    assert config.trace_on is True


def test_the_text_has_one_key_a_line() -> None:
    assert properties_text({"b": "2", "a": "1"}) == "a=1\nb=2\n"
