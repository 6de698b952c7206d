"""Tests of codes 25 and 26: changing a running broker (CVE-2023-33246, CVE-2023-37582)."""

import json
from collections.abc import Callable

import msgspec
import pytest

from tests.broker.harness import NOW_MS, Harness, Waiting, settings
from tests.broker.other_values import ONE_VALUE, other_value
from wakelog.broker.broker import Broker
from wakelog.broker.config_file import (
    FIXED_KEYS,
    REFUSED_WHEN_TRUE,
    all_settings,
    with_changes,
)
from wakelog.broker.decision import RegisterBroker, UseSettings
from wakelog.broker.effects import Saved
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.names import WAITING_FIELD
from wakelog.storage.live_settings import TABLE, read_changes
from wakelog.storage.settings_text import BODY_BYTES_MAX, is_live, parse_properties

MakeHarness = Callable[..., Harness]

SHOWN = all_settings(settings())


def update(harness: Harness, text: str) -> RemotingCommand:
    return harness.ask(RequestCode.UPDATE_BROKER_CONFIG, body=text.encode())


def shown(harness: Harness) -> tuple[dict[str, str], dict[str, int]]:
    response = harness.ask(RequestCode.GET_BROKER_CONFIG)
    assert response.code == ResponseCode.SUCCESS
    return parse_properties(response.body.decode()), json.loads(response.ext_fields["version"])


def saved(harness: Harness) -> str:
    """Return the text of the file of changes."""
    return harness.broker.tables[TABLE].snapshot()()


def test_every_key_is_shown_with_a_version(make_harness: MakeHarness) -> None:
    text, version = shown(make_harness(brokerName="b1", mine="1", useTLS="false"))
    expected = {"brokerName": "b1", "fileReservedTime": "72", "mine": "1", "useTLS": "false"}
    assert {key: text[key] for key in expected} == expected
    assert version == {"timestamp": NOW_MS, "counter": 0}


@pytest.mark.parametrize("key", sorted(SHOWN.keys() - FIXED_KEYS.keys() - ONE_VALUE.keys()))
def test_every_key_is_set_read_back_and_read_back_after_a_restart(
    make_harness: MakeHarness, key: str
) -> None:
    harness = make_harness()
    others = {"brokerId": "1"} if key == "brokerRole" else {}
    value = other_value(key, SHOWN[key])
    wanted = others | {key: value}
    body = "".join(f"{name}={text}\n" for name, text in wanted.items())
    response = update(harness, body)
    assert response.code == ResponseCode.SUCCESS, response.remark
    assert shown(harness)[0].items() >= wanted.items()
    asked = harness.ask(RequestCode.GET_BROKER_CONFIG)
    waits = json.loads(asked.ext_fields.get(WAITING_FIELD, "{}"))
    fields = [*msgspec.structs.fields(harness.settings.broker)]
    fields += msgspec.structs.fields(harness.settings.store)
    live = {field.encode_name: is_live(field.type) for field in fields}
    assert (key in waits) == (not live.get(key, True))
    assert (key in (response.remark or "")) == (not live.get(key, False))
    # A start that is planned uses all of it.
    started = with_changes(settings(), read_changes(saved(harness)))
    again = Broker(started, harness.store, NOW_MS)  # type: ignore[arg-type]
    again.load(TABLE, saved(harness))
    assert again.state.live.shown()[key] == value
    if key != "brokerId":  # of a slave only
        assert all_settings(started)[key] == value


@pytest.mark.parametrize("key", sorted(FIXED_KEYS))
def test_a_fixed_key_is_refused_with_the_reason_and_changes_nothing(
    harness: Harness, key: str
) -> None:
    """CVE-2023-33246 and CVE-2023-37582."""
    before = shown(harness)
    value = "true" if key == "aclEnable" else "9"
    response = update(harness, f"traceOn=false\nfilterServerNums=1\n{key}={value}")
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert f"{key}={value}" in (response.remark or "")
    assert FIXED_KEYS[key] in (response.remark or "")
    assert shown(harness) == before
    assert read_changes(saved(harness)) == {}


def test_every_path_is_fixed() -> None:
    paths = {key for key, value in SHOWN.items() if value.startswith("/")}
    paths |= {key for key in SHOWN if "Path" in key or key.endswith(("Home", "Dir"))}
    assert paths and paths <= FIXED_KEYS.keys()


def test_what_is_used_at_once_is_no_path_command_name_or_address(harness: Harness) -> None:
    fields = [*msgspec.structs.fields(harness.settings.broker)]
    fields += msgspec.structs.fields(harness.settings.store)
    live = {field.encode_name: field.type.__origin__ for field in fields if is_live(field.type)}
    assert len(live) > 20
    assert {key for key, kind in live.items() if kind not in (bool, int, float)} == {"deleteWhen"}


def test_what_cannot_be_kept_is_not_changed(harness: Harness) -> None:
    """As on a full disk."""
    before = shown(harness)
    harness.save_failure = "no space left on device"
    response = update(harness, "traceOn=false\nflushDiskType=SYNC_FLUSH")
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert "nothing was changed" in (response.remark or "")
    assert "no space left" in (response.remark or "")
    assert shown(harness) == before
    harness.save_failure = ""
    assert update(harness, "traceOn=false").code == ResponseCode.SUCCESS


def saving(harness: Harness, request: RemotingCommand) -> Waiting:
    """Give the broker a request, and return it when it waits for a file."""
    harness.leaves_saves = True
    outcome = harness.settle(harness.broker.process(request, harness.channel, NOW_MS))
    assert isinstance(outcome, Waiting) and isinstance(outcome.effect, Saved), outcome
    return outcome


def test_success_waits_for_the_file(harness: Harness) -> None:
    request = harness.request(RequestCode.UPDATE_BROKER_CONFIG, body=b"traceOn=false")
    saving(harness, request)
    assert harness.settings.broker.trace_on


def test_a_change_that_another_request_is_saving_is_no_success_before_that(
    harness: Harness,
) -> None:
    outcomes = []
    for _ in range(2):
        request = harness.request(RequestCode.UPDATE_BROKER_CONFIG, body=b"traceOn=false")
        outcomes.append(saving(harness, request))
    for outcome in reversed(outcomes):
        [save] = outcome.effect.saves
        assert save.undo is not None
        save.undo()
    for outcome in outcomes:
        response = harness.resume(outcome, "full")
        assert isinstance(response, RemotingCommand) and response.code == ResponseCode.SYSTEM_ERROR
    assert shown(harness)[0]["traceOn"] == "true" and not harness.broker.state.live.is_saving


def test_a_live_key_is_changed_and_makes_a_new_version(harness: Harness) -> None:
    response = update(harness, "traceOn=false\n")
    assert (response.code, response.remark) == (ResponseCode.SUCCESS, None)
    text, version = shown(harness)
    assert (text["traceOn"], version["counter"]) == ("false", 1)
    assert harness.settings.broker.trace_on is False


def test_a_key_that_waits_is_in_answer_and_log_and_shown(harness: Harness) -> None:
    response = update(harness, "flushDiskType=SYNC_FLUSH\nserverWorkerThreads=9")
    assert response.code == ResponseCode.SUCCESS
    remark = (
        "kept, and used after a restart: flushDiskType; "
        "kept, and without effect here: serverWorkerThreads"
    )
    assert response.remark == remark
    [line] = [one for one in harness.instructions() if type(one).__name__ == "WriteLine"]
    assert line.values["remark"] == remark  # type: ignore[union-attr]
    asked = harness.ask(RequestCode.GET_BROKER_CONFIG)
    assert json.loads(asked.ext_fields[WAITING_FIELD]) == {"flushDiskType": "ASYNC_FLUSH"}
    # The broker goes on as it was started: 4.9.3 fails every send from here on.
    assert harness.send("T").code == ResponseCode.SUCCESS


def test_a_wrong_value_names_key_and_accepted_form(harness: Harness) -> None:
    response = update(harness, "traceOn=maybe")
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert response.remark == "traceOn=maybe: not accepted, give true or false"


def test_a_misspelled_key_is_refused_with_the_nearest_one(harness: Harness) -> None:
    response = update(harness, "traceOnn=true")
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert "did you mean traceOn?" in (response.remark or "")


@pytest.mark.parametrize("key", sorted(REFUSED_WHEN_TRUE))
def test_what_no_start_would_take_is_refused(harness: Harness, key: str) -> None:
    response = update(harness, f"{key}=true")
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert REFUSED_WHEN_TRUE[key] in (response.remark or "")


def test_a_slave_needs_both_of_its_keys(harness: Harness) -> None:
    assert "brokerId" in (update(harness, "brokerRole=SLAVE").remark or "")
    assert update(harness, "brokerId=1").code == ResponseCode.SUCCESS
    assert update(harness, "brokerRole=SLAVE").code == ResponseCode.SUCCESS


@pytest.mark.parametrize("body", [b"\xff\xfe=1", b"a=" + b"1" * BODY_BYTES_MAX, b"a=\\uzzzz"])
def test_a_text_that_is_none_is_refused(harness: Harness, body: bytes) -> None:
    response = harness.ask(RequestCode.UPDATE_BROKER_CONFIG, body=body)
    assert response.code == ResponseCode.SYSTEM_ERROR


def test_an_empty_update_and_one_of_everything_shown_are_fine(harness: Harness) -> None:
    assert update(harness, "").code == ResponseCode.SUCCESS
    text, version = shown(harness)
    everything = "".join(f"{key}={value}\n" for key, value in text.items())
    assert update(harness, everything).code == ResponseCode.SUCCESS
    assert shown(harness) == (text, version)


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


@pytest.mark.parametrize(
    "text",
    ["fileReservedTime=-1", "waitTimeMillsInSendQueue=0"],
)
def test_a_wrong_value_leaves_broker_and_store_as_they_were(harness: Harness, text: str) -> None:
    before = shown(harness)
    response = update(harness, f"traceOn=false\nfileReservedTime=5\n{text}")
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert text.split("=")[0] in (response.remark or "")
    assert shown(harness) == before


def test_the_shell_follows_live_keys_alone(harness: Harness) -> None:
    assert update(harness, "waitTimeMillsInSendQueue=500").code == ResponseCode.SUCCESS
    assert harness.instructions().count(UseSettings()) == 1
    assert update(harness, "flushDiskType=SYNC_FLUSH").code == ResponseCode.SUCCESS
    assert UseSettings() not in harness.instructions()
    assert update(harness, "haSlaveFallbehindMax=7").code == ResponseCode.SUCCESS
    assert harness.broker.state.replicas.behind_bytes_max == 7


def test_filters_by_expression_can_be_switched_on(harness: Harness) -> None:
    wanted = b'{"subscriptionData":{"topic":"T","subString":"a > 1","expressionType":"SQL92"}}'
    code = RequestCode.CHECK_CLIENT_CONFIG
    assert harness.ask(code, body=wanted).code == ResponseCode.SYSTEM_ERROR
    assert update(harness, "enablePropertyFilter=true").code == ResponseCode.SUCCESS
    assert harness.ask(code, body=wanted).code == ResponseCode.SUCCESS
