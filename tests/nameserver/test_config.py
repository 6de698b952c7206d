"""Tests of the settings of a name server, and of their change while it runs (CVE-2023-37582)."""

import pytest

from tests.nameserver.harness import make_config
from wakelog.nameserver.config import (
    KEYS_WITHOUT_EFFECT,
    LIVE_KEYS,
    NameServerConfig,
    all_settings,
    update_config,
)
from wakelog.storage.errors import IllegalConfiguration

KEYS = NameServerConfig.__struct_encode_fields__


def test_the_defaults_are_4_9_3s() -> None:
    # Specification 6, NamesrvConfig; 9876 is NamesrvStartup's.
    config = make_config()
    shown = all_settings(config)
    assert (shown["productEnvName"], shown["clusterTest"]) == ("center", "false")
    assert config.order_message_enable is False
    assert config.listen_port == 9876
    assert config.server_channel_max_idle_time_seconds == 120


@pytest.mark.parametrize(
    ("key", "value", "accepted"),
    [
        ("listenPort", 70_000, "0 to 65535"),
        ("kvConfigPath", "", "the path of a file"),
        ("kvConfigPath", "/a\nb", "printable characters on one line"),
    ],
)
def test_an_unusable_value_is_refused(key: str, value: object, accepted: str) -> None:
    with pytest.raises(IllegalConfiguration) as raised:
        make_config(**{key: value})
    assert raised.value.key == key
    assert raised.value.accepted.startswith(accepted)


@pytest.mark.parametrize("key", sorted({*KEYS, *KEYS_WITHOUT_EFFECT, "nonsense"} - LIVE_KEYS))
def test_a_key_that_is_not_live_changes_nothing(key: str) -> None:
    found = make_config()
    update = update_config(found, f"{key}=1")
    assert (update.applied, update.ignored) == ((), (key,))
    assert found == make_config()


def test_every_key_of_4_9_3_is_in_one_place() -> None:
    assert not set(KEYS) & KEYS_WITHOUT_EFFECT.keys()
    assert len(all_settings(make_config())) == 20  # NamesrvConfig has 6, NettyServerConfig 14


def test_no_path_name_or_address_is_live() -> None:
    suspicious = ("path", "home", "dir", "addr", "name", "port")
    assert not [key for key in LIVE_KEYS if any(word in key.lower() for word in suspicious)]


def test_live_keys_are_applied_and_the_others_named() -> None:
    config = make_config()
    update = update_config(config, "orderMessageEnable=true\nkvConfigPath=/evil\nnonsense=1\n")
    assert update.applied == ("orderMessageEnable",)
    assert update.ignored == ("kvConfigPath", "nonsense")
    assert config.order_message_enable is True
    assert config.kv_config_path == "/kvConfig.json"


@pytest.mark.parametrize(
    "line",
    [
        "configStorePath=/tmp/x\\n* * * * * root sh",
        "productEnvName=a\\r\\nb",
        "orderMessageEnable=maybe",
        "nonsense=\\u0000",
    ],
)
def test_one_wrong_value_leaves_everything_as_it_was(line: str) -> None:
    # A value of several lines was how a configuration became a crontab.
    config = make_config()
    with pytest.raises(IllegalConfiguration):
        update_config(config, f"orderMessageEnable=true\n{line}")
    assert config.order_message_enable is False
