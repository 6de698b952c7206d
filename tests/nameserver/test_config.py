"""Tests of the settings of a name server, and of their change while it runs (CVE-2023-37582)."""

import json
from collections.abc import Generator

import pytest

from tests.broker.other_values import other_value
from tests.nameserver.harness import NOW_MS, FakeChannel, Harness, make_config
from wakelog.nameserver.config import (
    FIXED_KEYS,
    KEYS_WITHOUT_EFFECT,
    NameServerConfig,
    NameServerSettings,
    all_settings,
    live_settings,
    path_of_file,
    with_changes,
)
from wakelog.nameserver.decision import TableSaved
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, make_request
from wakelog.protocol.names import WAITING_FIELD
from wakelog.storage.errors import IllegalConfiguration
from wakelog.storage.live_settings import TABLE, read_changes
from wakelog.storage.settings_text import parse_properties

KEYS = NameServerConfig.__struct_encode_fields__
SHOWN = all_settings(NameServerSettings(make_config()))


def update(harness: Harness, text: str) -> RemotingCommand:
    return harness.ask(RequestCode.UPDATE_NAMESRV_CONFIG, text.encode())


def shown(harness: Harness) -> dict[str, str]:
    return parse_properties(harness.ask(RequestCode.GET_NAMESRV_CONFIG).body.decode())


def saved(harness: Harness) -> str:
    return harness.core.tables[TABLE].snapshot()()


def test_the_defaults_are_4_9_3s() -> None:
    # Specification 6, NamesrvConfig; 9876 is NamesrvStartup's.
    config = make_config()
    assert (SHOWN["productEnvName"], SHOWN["clusterTest"]) == ("center", "false")
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


def test_every_key_of_4_9_3_is_in_one_place() -> None:
    assert not set(KEYS) & KEYS_WITHOUT_EFFECT.keys()
    assert len(SHOWN) == 20  # NamesrvConfig has 6, NettyServerConfig 14


@pytest.mark.parametrize("key", sorted(SHOWN.keys() - FIXED_KEYS.keys()))
def test_every_key_is_set_read_back_and_read_back_after_a_restart(key: str) -> None:
    harness = Harness()
    value = other_value(key, SHOWN[key])
    response = update(harness, f"{key}={value}\n")
    assert response.code == ResponseCode.SUCCESS, response.remark
    assert shown(harness)[key] == value
    assert (response.remark is None) == (key == "orderMessageEnable")
    asked = harness.ask(RequestCode.GET_NAMESRV_CONFIG)
    waits = json.loads(asked.ext_fields.get(WAITING_FIELD, "{}"))
    assert (key in waits) == (key in KEYS and key != "orderMessageEnable")
    settings = NameServerSettings(make_config())
    started = with_changes(settings, read_changes(saved(harness)))
    assert all_settings(started)[key] == value
    again = live_settings(settings)
    again.load(saved(harness))
    assert again.shown()[key] == value


@pytest.mark.parametrize("key", sorted(FIXED_KEYS))
def test_a_path_is_refused_with_the_reason_and_changes_nothing(key: str) -> None:
    harness = Harness()
    response = update(harness, f"orderMessageEnable=true\n{key}=/evil")
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert FIXED_KEYS[key] in (response.remark or "")
    assert shown(harness) == SHOWN


def test_every_path_is_fixed() -> None:
    paths = {key for key in SHOWN if "Path" in key or key.endswith("Home")}
    assert paths <= FIXED_KEYS.keys()


@pytest.mark.parametrize(
    "line",
    [
        "productEnvName=a\\r\\nb",
        "orderMessageEnable=maybe",
        "listenPort=70000",
        "serverWorkerThreads=many",
        "nonsense=1",
    ],
)
def test_one_wrong_value_leaves_everything_as_it_was(line: str) -> None:
    # A value of several lines was how a configuration became a crontab.
    harness = Harness()
    response = update(harness, f"clusterTest=true\n{line}")
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert line.split("=")[0] in (response.remark or "")
    assert shown(harness) == SHOWN


def test_what_cannot_be_kept_is_not_changed() -> None:
    harness = Harness()
    harness.save_failure = "no space left on device"
    response = update(harness, "orderMessageEnable=true")
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert "no space left" in (response.remark or "")
    assert shown(harness) == SHOWN


def test_a_change_that_another_request_is_saving_is_no_success_before_that() -> None:
    harness = Harness()
    saving = []
    for opaque in range(2):
        request = make_request(
            RequestCode.UPDATE_NAMESRV_CONFIG, {}, b"orderMessageEnable=true", opaque=opaque
        )
        work = harness.core.process(request, FakeChannel(1), NOW_MS)
        assert isinstance(work, Generator) and isinstance(next(work), TableSaved)
        saving.append(work)
    for work in saving:
        with pytest.raises(StopIteration) as ended:
            work.send("full")
        assert ended.value.value.code == ResponseCode.SYSTEM_ERROR
    assert shown(harness) == SHOWN and not harness.core.live.is_saving


def test_the_changes_are_beside_the_values() -> None:
    config = NameServerConfig(kv_config_path="/a/kv.json")
    assert path_of_file(config, "kvConfig.json") == "/a/kv.json"
    assert path_of_file(config, f"{TABLE}.json") == "/a/changedSettings.json"
