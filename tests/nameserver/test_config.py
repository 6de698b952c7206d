"""Settings from text, and changing a running name server (CVE-2023-37582)."""

import pytest

from tests.nameserver.harness import settings
from wakelog.nameserver.config import (
    KEYS_WITHOUT_EFFECT,
    LIVE_KEYS,
    NameServerConfig,
    parse_properties,
    read_name_server_conf,
    settings_text,
    update_config,
)
from wakelog.storage.errors import IllegalConfiguration

KEYS = NameServerConfig.__struct_encode_fields__


def test_the_defaults_are_4_9_3s() -> None:
    # Specification 6, NamesrvConfig; 9876 is NamesrvStartup's.
    config = settings().config
    assert (config.product_env_name, config.cluster_test) == ("center", False)
    assert config.order_message_enable is False
    assert config.listen_port == 9876
    assert config.server_channel_max_idle_time_seconds == 120


def test_the_command_line_is_over_the_file_and_the_file_over_the_machine() -> None:
    found = read_name_server_conf(
        "listenPort = 1\nserverSocketBacklog=5 \n# a comment\n",
        defaults={"listenPort": "2", "kvConfigPath": "/d", "rocketmqHome": "/home"},
        overrides={"listenPort": "3"},
    ).config
    assert (found.listen_port, found.server_socket_backlog) == (3, 5)
    assert (found.kv_config_path, found.rocketmq_home) == ("/d", "/home")


@pytest.mark.parametrize(
    ("key", "value", "accepted"),
    [
        ("listenPort", "70000", "0 to 65535"),
        ("listenPort", "x", "a whole number"),
        ("orderMessageEnable", "yes", "true or false"),
        ("clusterTest", "true", "false: "),
        ("kvConfigPath", "", "the path of a file"),
        ("kvConfigPath", "/a\nb", "printable characters on one line"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused(key: str, value: str, accepted: str) -> None:
    with pytest.raises(IllegalConfiguration) as raised:
        settings(**{key: value})
    assert raised.value.key == key
    assert raised.value.accepted.startswith(accepted)


def test_the_path_of_the_file_has_to_be_given() -> None:
    with pytest.raises(IllegalConfiguration, match="kvConfigPath"):
        read_name_server_conf("")


def test_text_that_is_no_properties_is_refused() -> None:
    with pytest.raises(IllegalConfiguration, match="Java properties"):
        parse_properties("a=\\u12")


@pytest.mark.parametrize(
    ("key", "warning"),
    [
        ("orderMessageEnabel", "is ignored; did you mean orderMessageEnable?"),
        ("nonsense", "nonsense is not a key of RocketMQ 4.9.3's name server and is ignored"),
        ("serverWorkerThreads", "serverWorkerThreads has no effect here"),
    ],
)
def test_a_key_that_does_nothing_is_kept_and_warned_about(key: str, warning: str) -> None:
    found = settings(**{key: "1"})
    assert found.unknown == {key: "1"}
    assert len(found.warnings) == 1
    assert found.warnings[0].endswith(warning)


def test_every_key_is_shown_as_4_9_3_writes_it() -> None:
    shown = parse_properties(settings_text(settings(nonsense="1")))
    assert shown.keys() == {*KEYS, "nonsense"}
    assert shown["clusterTest"] == "false"
    assert shown["listenPort"] == "9876"


@pytest.mark.parametrize("key", sorted({*KEYS, *KEYS_WITHOUT_EFFECT} - LIVE_KEYS))
def test_a_key_that_is_not_live_changes_nothing(key: str) -> None:
    found = settings()
    update = update_config(found.config, f"{key}=1")
    assert (update.applied, update.ignored) == ((), (key,))
    assert settings_text(found) == settings_text(settings())


def test_no_path_name_or_address_is_live() -> None:
    suspicious = ("path", "home", "dir", "addr", "name", "port")
    assert not [key for key in LIVE_KEYS if any(word in key.lower() for word in suspicious)]


def test_what_is_live_is_applied_and_the_rest_named() -> None:
    config = settings().config
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
    config = settings().config
    with pytest.raises(IllegalConfiguration):
        update_config(config, f"orderMessageEnable=true\n{line}")
    assert config.order_message_enable is False
