"""Tests of codes 25 and 26: changing a running broker (CVE-2023-33246, CVE-2023-37582)."""

import json
from collections.abc import Callable

import msgspec
import pytest

from tests.broker.harness import NOW_MS, Harness, settings
from wakelog.broker.config_file import OBEYED_KEYS, WITHOUT_EFFECT, all_settings
from wakelog.broker.decision import ChangeLaneWaits, RegisterBroker
from wakelog.broker.processors.config import LIVE_KEYS, LIVE_STORE_KEYS, check_live
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.storage.settings_text import BODY_BYTES_MAX, parse_properties, update_settings

MakeHarness = Callable[..., Harness]


def update(harness: Harness, text: str) -> RemotingCommand:
    return harness.ask(RequestCode.UPDATE_BROKER_CONFIG, body=text.encode())


def shown(harness: Harness) -> tuple[dict[str, str], dict[str, int]]:
    response = harness.ask(RequestCode.GET_BROKER_CONFIG)
    assert response.code == ResponseCode.SUCCESS
    return parse_properties(response.body.decode()), json.loads(response.ext_fields["version"])


def test_every_key_is_shown_with_a_version(make_harness: MakeHarness) -> None:
    text, version = shown(make_harness(brokerName="b1", mine="1", useTLS="false"))
    expected = {"brokerName": "b1", "fileReservedTime": "72", "mine": "1", "useTLS": "false"}
    assert {key: text[key] for key in expected} == expected
    assert version == {"timestamp": NOW_MS, "counter": 0}


def test_a_live_key_is_changed_and_makes_a_new_version(harness: Harness) -> None:
    response = update(harness, "traceOn=false\n")
    assert (response.code, response.remark) == (ResponseCode.SUCCESS, None)
    text, version = shown(harness)
    assert (text["traceOn"], version["counter"]) == ("false", 1)


def test_what_was_ignored_is_named(harness: Harness) -> None:
    given = "traceOn=false\nlistenPort=1\nstorePathRootDir=/evil\nserverWorkerThreads=1\nmine=1"
    response = update(harness, given)
    assert response.code == ResponseCode.SUCCESS
    assert response.remark == (
        "not changed while the broker runs, set at start: listenPort, storePathRootDir; "
        "without effect here: serverWorkerThreads; unknown: mine"
    )


@pytest.mark.parametrize("text", ["filterServerNums=1\nrocketmqHome=-c evil", "configStorePath=/x"])
def test_an_update_that_changes_nothing_is_an_error(harness: Harness, text: str) -> None:
    """CVE-2023-33246 and CVE-2023-37582."""
    before = shown(harness)
    assert update(harness, text).code == ResponseCode.SYSTEM_ERROR
    assert shown(harness) == before


def test_a_wrong_value_names_key_and_accepted_form(harness: Harness) -> None:
    response = update(harness, "traceOn=maybe")
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert response.remark == "traceOn=maybe: not accepted, give true or false"


@pytest.mark.parametrize("body", [b"\xff\xfe=1", b"a=" + b"1" * BODY_BYTES_MAX, b"a=\\uzzzz"])
def test_a_text_that_is_none_is_refused(harness: Harness, body: bytes) -> None:
    response = harness.ask(RequestCode.UPDATE_BROKER_CONFIG, body=body)
    assert response.code == ResponseCode.SYSTEM_ERROR


def test_an_empty_update_is_fine(harness: Harness) -> None:
    assert update(harness, "").code == ResponseCode.SUCCESS


def test_a_new_permission_is_registered_at_once(harness: Harness) -> None:
    before = harness.broker.state.topics.data_version
    assert update(harness, "brokerPermission=4").code == ResponseCode.SUCCESS
    assert harness.broker.state.topics.data_version.counter == before.counter + 1
    assert RegisterBroker() in harness.instructions()


def test_auto_creation_can_be_switched_on(make_harness: MakeHarness) -> None:
    harness = make_harness(autoCreateTopicEnable="false")
    assert harness.send("T").code == ResponseCode.TOPIC_NOT_EXIST
    assert update(harness, "autoCreateTopicEnable=true").code == ResponseCode.SUCCESS
    assert harness.send("T").code == ResponseCode.SUCCESS
    assert update(harness, "autoCreateTopicEnable=false").code == ResponseCode.SUCCESS
    assert harness.send("U").code == ResponseCode.TOPIC_NOT_EXIST


@pytest.mark.parametrize("key", sorted({*OBEYED_KEYS, *WITHOUT_EFFECT} - LIVE_KEYS))
def test_a_key_that_is_not_live_changes_nothing(key: str) -> None:
    before = settings()
    update = update_settings([before.broker, before.store], {key: "1"}, LIVE_KEYS, check_live)
    assert update == ((), (key,))
    assert all_settings(before) == all_settings(settings())


def test_no_path_command_name_or_address_is_live() -> None:
    suspicious = ("path", "home", "dir", "addr", "ip1", "name", "plugin", "server", "port")
    found = {key for key in LIVE_KEYS if any(word in key.lower() for word in suspicious)}
    assert found == {"registerNameServerPeriod", "filterSupportRetry"}  # a number, a switch


@pytest.mark.parametrize("key", sorted(LIVE_KEYS))
def test_a_live_key_is_a_number_a_switch_or_hours_and_is_taken(key: str) -> None:
    found = settings()
    config = found.store if key in LIVE_STORE_KEYS else found.broker
    field = next(f for f in msgspec.structs.fields(config) if f.encode_name == key)
    assert field.type in (int, bool) or key == "deleteWhen"
    given = "false" if field.type is bool else "7"
    expected = {bool: False, int: 7, str: "7"}[field.type]
    configs = [found.broker, found.store]
    assert update_settings(configs, {key: given}, LIVE_KEYS, check_live).applied == (key,)
    assert getattr(config, field.name) == expected


@pytest.mark.parametrize(
    "text",
    ["deleteWhen=noon", "fileReservedTime=-1", "waitTimeMillsInSendQueue=0"],
)
def test_a_wrong_value_leaves_broker_and_store_as_they_were(harness: Harness, text: str) -> None:
    before = shown(harness)
    response = update(harness, f"traceOn=false\nfileReservedTime=5\n{text}")
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert text.split("=")[0] in (response.remark or "")
    assert shown(harness) == before


def test_a_store_key_is_shown_as_changed(harness: Harness) -> None:
    assert update(harness, "fileReservedTime=5\ndeleteWhen=1;13").code == ResponseCode.SUCCESS
    text, _ = shown(harness)
    assert (text["fileReservedTime"], text["deleteWhen"]) == ("5", "1;13")


def test_limits_on_waiting_are_taken_by_the_lanes(harness: Harness) -> None:
    assert update(harness, "waitTimeMillsInSendQueue=500").code == ResponseCode.SUCCESS
    assert harness.instructions().count(ChangeLaneWaits()) == 1
    assert update(harness, "traceOn=false").code == ResponseCode.SUCCESS
    assert ChangeLaneWaits() not in harness.instructions()


def test_filters_by_expression_can_be_switched_on(harness: Harness) -> None:
    wanted = b'{"subscriptionData":{"topic":"T","subString":"a > 1","expressionType":"SQL92"}}'
    code = RequestCode.CHECK_CLIENT_CONFIG
    assert harness.ask(code, body=wanted).code == ResponseCode.SYSTEM_ERROR
    assert update(harness, "enablePropertyFilter=true").code == ResponseCode.SUCCESS
    assert harness.ask(code, body=wanted).code == ResponseCode.SUCCESS
