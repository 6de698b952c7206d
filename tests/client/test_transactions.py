"""Transactions: commit, roll back, and the broker's check."""

import pytest

from tests.client.clusters import FakeCluster, run_producer
from tests.fakes.records import record
from wakelog.client.errors import InvalidArgument, NotAcknowledged
from wakelog.client.producer import Producer
from wakelog.client.received import ReceivedMessage
from wakelog.client.transactions import Check, TransactionState
from wakelog.network.errors import CallTimeout
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.properties import decode_properties

NOT, COMMIT, ROLLBACK = "0", "8", "12"


def one_topic() -> FakeCluster:
    return FakeCluster(routes={"T": {"a": 1}})


def test_the_end_of_the_block_commits_the_half_message() -> None:
    cluster = one_topic()

    async def commit(producer: Producer) -> str:
        async with producer.transaction("T", b"x", keys="k") as transaction:
            assert cluster.ended == []
            return transaction.receipt.message_id

    message_id = run_producer(cluster, commit)
    [half] = cluster.sent
    properties = decode_properties(half.ext_fields["i"])
    assert (properties["TRAN_MSG"], properties["PGROUP"], half.ext_fields["f"]) == (
        "true",
        "g",
        "4",
    )
    [ended] = cluster.ended
    assert ended["commitOrRollback"] == COMMIT
    assert (ended["msgId"], ended["commitLogOffset"], ended["tranStateTableOffset"]) == (
        message_id, "255", "0",
    )  # fmt: skip
    assert (ended["producerGroup"], ended["fromTransactionCheck"]) == ("g", "false")


def test_an_exception_rolls_back_and_passes_on() -> None:
    cluster = one_topic()

    async def fail(producer: Producer) -> None:
        async with producer.transaction("T", b"x"):
            raise KeyError("local work")

    with pytest.raises(KeyError):
        run_producer(cluster, fail)
    assert [each["commitOrRollback"] for each in cluster.ended] == [ROLLBACK]


def test_the_decision_may_be_left_to_the_check() -> None:
    cluster = one_topic()

    async def leave_open(producer: Producer) -> None:
        async with producer.transaction("T", b"x") as transaction:
            transaction.state = TransactionState.UNKNOWN

    run_producer(cluster, leave_open)
    assert [each["commitOrRollback"] for each in cluster.ended] == [NOT]


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_commit_without_acknowledgement_is_an_error(is_lost: bool) -> None:
    cluster = one_topic()

    def fail(address: str, command: RemotingCommand) -> RemotingCommand | None:
        if command.code != RequestCode.END_TRANSACTION:
            return None
        if is_lost:
            raise CallTimeout(address, "no answer")
        return answer(command, ResponseCode.SYSTEM_ERROR, "gone")

    cluster.fail = fail

    async def commit(producer: Producer) -> None:
        async with producer.transaction("T", b"x"):
            pass

    with pytest.raises(NotAcknowledged, match="its check decides"):
        run_producer(cluster, commit)


@pytest.mark.parametrize("passes", [True, False])
def test_the_end_of_a_transaction_waits_until_another_broker_leads(passes: bool) -> None:
    cluster = one_topic()
    cluster.addresses["a"] = {0: "a:10911", 2: "a:20911"}
    asked = list[str]()

    def fail(address: str, command: RemotingCommand) -> RemotingCommand | None:
        if command.code != RequestCode.END_TRANSACTION:
            return None
        asked.append(address)
        if len(asked) == 2:
            cluster.addresses["a"] = {0: "a:20911", 1: "a:10911"}
        if address == "a:20911":
            return None
        code = ResponseCode.SLAVE_NOT_AVAILABLE if passes else ResponseCode.SYSTEM_ERROR
        return answer(command, code, "Transaction message is not supported")

    async def commit(producer: Producer) -> None:
        async with producer.transaction("T", b"x"):
            cluster.fail = fail

    if passes:
        run_producer(cluster, commit, retries_max=2)
        assert asked == ["a:10911", "a:10911", "a:20911"]
        assert [each["commitOrRollback"] for each in cluster.ended] == [COMMIT]
    else:
        with pytest.raises(NotAcknowledged, match="its check decides"):
            run_producer(cluster, commit, retries_max=2)
        assert len(asked) == 1


def test_a_roll_back_does_not_hold_up_the_callers_error() -> None:
    cluster = one_topic()
    asked = list[str]()

    def fail(address: str, command: RemotingCommand) -> None:
        if command.code == RequestCode.END_TRANSACTION:
            asked.append(address)
            raise CallTimeout(address, "no answer")

    cluster.fail = fail

    async def interrupted(producer: Producer) -> None:
        async with producer.transaction("T", b"x"):
            raise KeyError("local work")

    with pytest.raises(KeyError):
        run_producer(cluster, interrupted, retries_max=2)
    assert len(asked) == 1


def test_a_transaction_has_no_delay() -> None:
    async def begin(producer: Producer) -> None:
        async with producer.transaction("T", b"x", delay_level=1):
            raise AssertionError("it has begun")

    with pytest.raises(InvalidArgument, match="cannot be delayed"):
        run_producer(one_topic(), begin)


def question(group: str = "g") -> RemotingCommand:
    """Return what a broker asks about a half message."""
    properties = f"PGROUP\1{group}\2UNIQ_KEY\1K".encode()
    fields = {"tranStateTableOffset": "7", "commitLogOffset": "255", "transactionId": "K"}
    body = record(255, properties, topic="T")
    return RemotingCommand(int(RequestCode.CHECK_TRANSACTION_STATE), ext_fields=fields, body=body)


async def commit(message: ReceivedMessage) -> TransactionState:
    assert (message.topic, message.message_id) == ("T", "K")
    return TransactionState.COMMIT


async def fail(message: ReceivedMessage) -> TransactionState:
    raise ValueError("the database is away")


@pytest.mark.parametrize(
    ("check", "group", "ends"),
    [(commit, "g", [COMMIT]), (fail, "g", [NOT]), (commit, "other", []), (None, "g", [])],
)
def test_the_check_answers_for_messages_of_the_group(
    check: Check | None, group: str, ends: list[str]
) -> None:
    cluster = one_topic()

    async def ask(producer: Producer) -> None:
        await producer._instance.answer("a:10911", question(group))

    run_producer(cluster, ask, check=check)
    assert [each["commitOrRollback"] for each in cluster.ended] == ends
    for ended in cluster.ended:
        assert (ended["fromTransactionCheck"], ended["commitLogOffset"]) == ("true", "255")
        assert (ended["msgId"], ended["tranStateTableOffset"]) == ("K", "7")


def test_a_text_is_no_state_and_rolls_back() -> None:
    cluster = one_topic()

    async def decide(producer: Producer) -> None:
        async with producer.transaction("T", b"x") as transaction:
            transaction.state = "commit"  # type: ignore[assignment]

    with pytest.raises(InvalidArgument, match=r"state is 'commit', .*TransactionState\.COMMIT"):
        run_producer(cluster, decide)
    assert [each["commitOrRollback"] for each in cluster.ended] == [ROLLBACK]


def test_a_check_needs_not_be_a_coroutine() -> None:
    cluster = one_topic()

    async def ask(producer: Producer) -> None:
        await producer._ends.answer_check("a:10911", question())

    run_producer(cluster, ask, check=lambda message: TransactionState.ROLLBACK)
    assert [each["commitOrRollback"] for each in cluster.ended] == [ROLLBACK]
