"""The checks of one request, in 4.9.3's order and with its remarks."""

from typing import Any

import msgspec
import pytest
from msgspec import field

from tests.broker.access.requests import (
    ADMIN,
    FILE,
    HOST,
    HOST_OF_LOW,
    LOW,
    UNKNOWN,
    WHITE_HOST,
    WRONG,
    access_control,
    signed,
)
from tests.broker.harness import (
    NOW_MS,
    FakeChannel,
    Harness,
    pull_fields,
    send_fields,
    subscription,
)
from wakelog.broker.access.accounts import AccessTable
from wakelog.broker.access.control import NAMES_PER_STEP, AccessControl, AccessRefused
from wakelog.broker.access.failures import FAILURES_MAX
from wakelog.broker.decision import CloseChannel, WriteLine
from wakelog.broker.processors.table import PROCESSORS
from wakelog.network.signing import Credentials, sign, signature_over
from wakelog.protocol.bodies import ConsumerData, HeartbeatData, encode_body
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import ONEWAY_FLAG, RemotingCommand
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.send_run import SendRun
from wakelog.protocol.signed_content import SignedSend

EXCEPTION = "org.apache.rocketmq.acl.common.AclException: "


class AskedRun(SendRun, kw_only=True):
    """Sends of accounts, and which of them were asked for their signature."""

    senders: list[Credentials]
    topic: str = "written"
    asked: list[int] = field(default_factory=list)

    def signed(self, index: int) -> SignedSend | None:
        self.asked.append(index)
        sender, content = self.senders[index], b"%d" % index
        signature = signature_over(content, sender.secret_key)
        return SignedSend(sender.access_key.encode(), signature, content)

    def topic_of(self, index: int) -> str:
        return self.topic


def run_of(senders: list[Credentials], **fields: Any) -> AskedRun:
    return AskedRun(
        code=Code.SEND_MESSAGE_V2,
        chunk=memoryview(b""),
        queues=(),
        count=len(senders),
        frames_bytes=0,
        senders=senders,
        **fields,
    )


@pytest.mark.parametrize(
    ("host", "senders", "taken", "asked", "admitted_end"),
    [
        (HOST, "LLLL", 0, [0, 1, 2, 3], 4),
        (HOST, "AAAA", 0, [0, 1, 2, 3], 4),
        (HOST, "LLLL", 2, [2, 3], 4),
        (HOST, "LLWL", 0, [0, 1, 2], 2),
        (HOST, "LUWL", 0, [0, 1], 1),
        (HOST, "WLLL", 0, [0], 0),
        (HOST, "LLLW", 3, [3], 3),
        (HOST_OF_LOW, "LWAL", 0, [0, 1, 2, 3], 4),
        (HOST_OF_LOW, "LWUL", 0, [0, 1, 2], 2),
        (WHITE_HOST, "LLWU", 0, [], -1),
    ],
)
def test_each_send_of_a_run_is_asked_once_up_to_the_first_that_may_not(
    host: str, senders: str, taken: int, asked: list[int], admitted_end: int
) -> None:
    accounts = {"A": ADMIN, "L": LOW, "W": WRONG, "U": UNKNOWN}
    run = run_of([accounts[letter] for letter in senders], taken_count=taken)
    control, processor = access_control(), PROCESSORS[Code.SEND_MESSAGE_V2]
    control.admit(run, processor, host)
    assert (run.asked, run.admitted_end) == (asked, admitted_end)
    run.taken_count = max(admitted_end - 1, 0)
    if run.taken_count < admitted_end:
        control.admit(run, processor, host)
        assert (run.asked, run.admitted_end) == (asked, admitted_end)


@pytest.mark.parametrize(
    ("topic", "is_admitted"),
    [("written", True), ("both", True), ("read", False), ("denied", False), ("other", False)],
)
def test_a_run_is_admitted_up_to_a_topic_that_its_sender_may_not_write(
    topic: str, *, is_admitted: bool
) -> None:
    for sender, end in ((ADMIN, 1), (LOW, int(is_admitted))):
        run = run_of([sender], topic=topic)
        access_control().admit(run, PROCESSORS[Code.SEND_MESSAGE_V2], HOST)
        assert run.admitted_end == end


class Guarded(Harness):
    """A broker with access control, asked as a server would."""

    def __init__(self) -> None:
        self.access: AccessControl = access_control()
        super().__init__()

    def has_group(self, group: str) -> bool:
        """Return whether a consumer group has members."""
        return self.broker.state.consumers.get(group) is not None


def answered(harness: Harness, command: RemotingCommand, host: str = HOST) -> RemotingCommand:
    """Give a broker a request from an address, and return its response."""
    return harness.answered(harness.broker.process(command, FakeChannel(7, host), NOW_MS))


def refusal(command: RemotingCommand, host: str = HOST) -> str | None:
    """Return why a request is refused, None if it may go on."""
    control = access_control()
    try:
        control.check(command, PROCESSORS.get(command.code), host, NOW_MS)
    except AccessRefused as error:
        assert error.code == ResponseCode.SYSTEM_ERROR
        assert error.remark.startswith(EXCEPTION) and "secret" not in error.remark
        assert control.refused_count == 1
        return error.remark.removeprefix(EXCEPTION)
    assert control.refused_count == 0
    return None


@pytest.mark.parametrize(
    ("by", "host", "expected"),
    [
        (Credentials(), HOST, "No accessKey is configured"),
        (UNKNOWN, HOST, "No acl config for unknown-key"),
        (WRONG, HOST, "Check signature failed for accessKey=low-key"),
        (LOW, HOST, None),
        (ADMIN, HOST, None),
        (Credentials(), WHITE_HOST, None),
        (WRONG, HOST_OF_LOW, None),
        (Credentials(), HOST_OF_LOW, "No accessKey is configured"),
        (UNKNOWN, HOST_OF_LOW, "No acl config for unknown-key"),
    ],
)
def test_whose_request_it_is(by: Credentials, host: str, expected: str | None) -> None:
    assert refusal(signed(Code.GET_BROKER_CONFIG, by), host) == expected


def test_every_value_and_the_body_are_signed() -> None:
    command = signed(Code.SEND_MESSAGE_V2, LOW, send_fields("written"), b"body")
    assert refusal(command) is None
    failed = "Check signature failed for accessKey=low-key"
    assert refusal(msgspec.structs.replace(command, body=b"bodY")) == failed
    for name in command.ext_fields:
        if name != "AccessKey":
            fields = command.ext_fields | {name: "other"}
            assert refusal(msgspec.structs.replace(command, ext_fields=fields)) == failed
    fields = command.ext_fields | {"_UNIQUE_KEY_QUERY": "true"}  # which 4.9.3's client adds later
    assert refusal(msgspec.structs.replace(command, ext_fields=fields)) is None


def test_a_signature_may_be_sent_again() -> None:
    command = signed(Code.GET_BROKER_CONFIG, LOW)
    assert (refusal(command), refusal(command)) == (None, None)


def test_an_absent_signature_is_a_wrong_one() -> None:
    command = RemotingCommand(int(Code.GET_BROKER_CONFIG), ext_fields={"AccessKey": "low-key"})
    assert refusal(command) == "Check signature failed for accessKey=low-key"


def admin_only(code: int) -> str:
    return f"Need admin permission for request code={code}, but accessKey=low-key is not"


def test_administration_needs_an_admin() -> None:
    fields = {"topic": "T", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
    fields |= {"topicFilterType": "SINGLE_TAG", "defaultTopic": "TBW102", "order": "false"}
    command = signed(17, LOW, fields)
    assert refusal(command) == admin_only(17)
    assert refusal(command, HOST_OF_LOW) is None  # an address stands for all of the account
    assert refusal(signed(17, ADMIN, fields)) is None
    assert refusal(signed(25, LOW)) == admin_only(25)
    assert refusal(signed(25), WHITE_HOST) is None


@pytest.mark.parametrize(
    ("topic", "is_allowed"),
    [("read", False), ("written", True), ("both", True), ("denied", False), ("other", False)],
)
def test_sending_needs_pub(topic: str, is_allowed: bool) -> None:
    expected = None if is_allowed else f"No default permission for topic:{topic}"
    assert refusal(signed(Code.SEND_MESSAGE_V2, LOW, send_fields(topic))) == expected
    # 4.9.3 checks no topic of a batch.
    assert refusal(signed(Code.SEND_BATCH_MESSAGE, LOW, send_fields(topic, m="true"))) is None


@pytest.mark.parametrize(
    ("topic", "group", "refused"),
    [
        ("read", "open", None),
        ("both", "open", None),
        ("written", "open", "topic:written"),
        ("read", "closed", "group:closed"),
        ("%RETRY%open", "open", None),
        ("%RETRY%closed", "open", "group:closed"),
    ],
)
def test_pulling_needs_sub_of_topic_and_group(topic: str, group: str, refused: str | None) -> None:
    fields = pull_fields(topic=topic, consumerGroup=group)
    expected = None if refused is None else f"No default permission for {refused}"
    assert refusal(signed(Code.PULL_MESSAGE, LOW, fields)) == expected


@pytest.mark.parametrize(
    ("group", "topic", "refused"),
    [("open", "read", None), ("closed", "read", "group:closed"), ("open", "other", "topic:other")],
)
def test_a_heartbeat_needs_sub_of_all_it_names(group: str, topic: str, refused: str | None) -> None:
    named = ConsumerData(group, subscription_data_set=[subscription(topic)])
    consumers = [ConsumerData("open"), named]
    body = encode_body(HeartbeatData("c", [], consumers))
    command = signed(Code.HEART_BEAT, LOW, body=body)
    assert refusal(command) is None  # nothing of the body is decoded yet
    harness = Guarded()
    response = answered(harness, command)
    expected = None if refused is None else f"{EXCEPTION}No default permission for {refused}"
    assert response.remark == expected
    assert harness.access.refused_count == (refused is not None)
    assert harness.has_group("open") == (refused is None)


@pytest.mark.parametrize(
    ("by", "host"), [(Credentials(), WHITE_HOST), (WRONG, HOST_OF_LOW), (ADMIN, HOST)]
)
def test_a_heartbeat_of_a_trusted_address_or_an_admin_may_name_all(
    by: Credentials, host: str
) -> None:
    body = encode_body(HeartbeatData("c", [], [ConsumerData("closed")]))
    response = answered(Guarded(), signed(Code.HEART_BEAT, by, body=body), host)
    assert response.code == ResponseCode.SUCCESS


def test_a_heartbeat_of_an_account_that_has_gone_meanwhile_is_refused() -> None:
    harness = Guarded()
    body = encode_body(HeartbeatData("c", [], [ConsumerData("open")]))
    command = signed(Code.HEART_BEAT, LOW, body=body)
    steps = harness.broker.process(command, FakeChannel(1, HOST), NOW_MS)
    harness.access.replace(AccessTable({}))
    response = harness.settle(steps)
    assert isinstance(response, RemotingCommand)
    assert response.remark == f"{EXCEPTION}No acl config for low-key"


def test_what_a_heartbeat_names_is_checked_in_steps() -> None:
    names = NAMES_PER_STEP * 3 + 1
    consumers = [ConsumerData(f"g{number}") for number in range(names)]
    data = HeartbeatData("c", [], consumers)
    command = signed(Code.HEART_BEAT, LOW, body=encode_body(data))
    assert len(list(access_control().authorize_heartbeat(command, data, HOST))) == 3


def test_a_name_that_is_absent_is_not_checked() -> None:
    assert refusal(signed(Code.UNREGISTER_CLIENT, LOW, {"clientID": "c"})) is None
    fields = {"clientID": "c", "consumerGroup": "closed"}
    refused = refusal(signed(Code.UNREGISTER_CLIENT, LOW, fields))
    assert refused == "No default permission for group:closed"


def test_of_two_needs_for_a_name_the_later_counts() -> None:
    # As 4.9.3's map does: the retry topic is to be written, and then it is the group's to read.
    fields = {"offset": "0", "group": "open", "delayLevel": "0", "originTopic": "%RETRY%open"}
    assert refusal(signed(Code.CONSUMER_SEND_MSG_BACK, LOW, fields)) is None
    fields["originTopic"] = "read"
    refused = refusal(signed(Code.CONSUMER_SEND_MSG_BACK, LOW, fields))
    assert refused == "No default permission for topic:read"


def test_an_admin_with_a_list_is_checked_against_it() -> None:
    listed = FILE.replace("admin: true", "admin: true, topicPerms: [mine=PUB]")
    control = access_control(listed)
    row = PROCESSORS[Code.SEND_MESSAGE_V2]
    control.check(signed(Code.SEND_MESSAGE_V2, ADMIN, send_fields("mine")), row, HOST, NOW_MS)
    with pytest.raises(AccessRefused, match="topic:yours"):
        control.check(signed(Code.SEND_MESSAGE_V2, ADMIN, send_fields("yours")), row, HOST, NOW_MS)


def test_nothing_is_decoded_before_the_signature_is_checked() -> None:
    broken = {"topic": "T", "queueId": "x"}
    assert refusal(signed(Code.PULL_MESSAGE, WRONG, broken)) is not None
    with pytest.raises(RemoteProtocolError, match="consumerGroup"):
        refusal(signed(Code.PULL_MESSAGE, LOW, broken))
    assert refusal(signed(Code.HEART_BEAT, WRONG, body=b"{")) is not None
    response = answered(Guarded(), signed(Code.HEART_BEAT, LOW, body=b"{"))
    assert response.code == ResponseCode.SYSTEM_ERROR and "JSON" in (response.remark or "")


def test_a_code_without_a_row_needs_a_signature() -> None:
    assert refusal(signed(9999)) == "No accessKey is configured"
    assert refusal(signed(9999, LOW)) is None


def test_an_admins_signature() -> None:
    control = access_control()
    assert control.is_signed_by_admin(signed(54, ADMIN))
    for by in (LOW, WRONG, UNKNOWN, Credentials(), Credentials("admin-key", "guessed")):
        assert not control.is_signed_by_admin(signed(54, by))


class TestBroker:
    """A broker with access control."""

    def test_it_refuses_and_says_so_once(self) -> None:
        harness = Guarded()
        harness.instructions()
        response = harness.send("T")
        assert (response.code, response.remark) == (1, EXCEPTION + "No accessKey is configured")
        (line,) = harness.instructions()
        assert isinstance(line, WriteLine) and line.event == "access refused"
        assert line.values == {"code": 310, "cause": response.remark}
        assert harness.broker.statistics()["access"]["refused_count"] == 1
        assert harness.store.queues_by_name == {}

    def test_it_answers_its_accounts(self) -> None:
        harness = Guarded()
        for by, code in ((LOW, 0), (WRONG, 1), (ADMIN, 0)):
            command = signed(Code.SEND_MESSAGE_V2, by, send_fields("written"), b"x")
            outcome = harness.broker.process(command, harness.channel, harness.now_ms)
            assert harness.answered(outcome).code == code

    def test_a_peer_that_fails_too_often_loses_its_connection(self) -> None:
        harness = Guarded()
        guess = signed(Code.GET_BROKER_CONFIG, WRONG)
        guesser, honest = FakeChannel(5, HOST), FakeChannel(6, HOST)

        def ask(command: RemotingCommand, channel: FakeChannel) -> RemotingCommand:
            response = harness.broker.process(command, channel, harness.now_ms)
            assert isinstance(response, RemotingCommand)
            return response

        for _ in range(FAILURES_MAX):
            assert ask(guess, guesser).remark == (
                EXCEPTION + "Check signature failed for accessKey=low-key"
            )
        harness.instructions()
        assert ask(guess, guesser).remark == (
            f"{EXCEPTION}Check signature failed for accessKey=low-key; with more than 100 failures "
            f"within a minute from {HOST}, this connection is closed"
        )
        closed, line = harness.instructions()
        assert closed == CloseChannel(guesser.id)
        assert isinstance(line, WriteLine) and HOST in line.values["cause"]
        assert ask(signed(9999, UNKNOWN), FakeChannel(7, HOST)).code == 1
        assert CloseChannel(7) in harness.instructions()
        # The right key goes on from there; a lack of permission is no failure of this kind.
        assert ask(signed(Code.GET_BROKER_CONFIG, LOW), honest).code == 0
        assert ask(signed(Code.UPDATE_BROKER_CONFIG, LOW), honest).code == 1
        assert not any(isinstance(one, CloseChannel) for one in harness.instructions())
        harness.now_ms += 60_000
        assert ask(guess, honest).code == 1
        assert not any(isinstance(one, CloseChannel) for one in harness.instructions())

    def test_an_unknown_code(self) -> None:
        harness = Guarded()
        assert harness.ask(9999).code == 1
        white = FakeChannel(2, WHITE_HOST)
        assert harness.ask(9999, channel=white).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert harness.process(9999, oneway=True) is None

    def test_a_oneway_request_that_is_refused_has_no_answer(self) -> None:
        harness = Guarded()
        command = sign(RemotingCommand(15, 1, ONEWAY_FLAG, {"topic": "T"}), WRONG)
        assert harness.broker.process(command, harness.channel, harness.now_ms) is None

    def test_another_table_counts_from_now_on(self) -> None:
        harness = Guarded()
        control = harness.access
        command = signed(Code.GET_BROKER_CONFIG, UNKNOWN)

        def code() -> int:
            outcome = harness.broker.process(command, harness.channel, harness.now_ms)
            assert isinstance(outcome, RemotingCommand)
            return outcome.code

        assert code() == 1
        text = "accounts: [{accessKey: unknown-key, secretKey: low-secret}]"
        control.replace(AccessTable({"plain_acl.yml": text}))
        assert code() == 0
        assert control.statistics() == {"account_count": 1, "refused_count": 1, "reload_count": 1}


def test_a_request_of_the_broker_itself_is_signed_by_the_account_of_now() -> None:
    ours, theirs = access_control(), access_control()
    command = RemotingCommand(Code.GET_ALL_TOPIC_CONFIG)
    row = PROCESSORS[Code.GET_ALL_TOPIC_CONFIG]
    theirs.check(ours.sign_as("admin-key", command), row, HOST, NOW_MS)
    assert command.ext_fields == {}
    changed = FILE.replace("admin-secret", "another-secret")
    ours.replace(AccessTable({"plain_acl.yml": changed}))
    with pytest.raises(AccessRefused, match="Check signature failed"):
        theirs.check(ours.sign_as("admin-key", command), row, HOST, NOW_MS)
    theirs.replace(AccessTable({"plain_acl.yml": changed}))
    theirs.check(ours.sign_as("admin-key", command), row, HOST, NOW_MS)
    assert ours.sign_as("unknown-key", command) is command
