"""One member of a group in numbers, and its stacks."""

from wakelog.console.cluster_reading import GroupReading
from wakelog.console.rules import PROBLEM
from wakelog.console.views import members
from wakelog.protocol.bodies import (
    Connection,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    OffsetWrapper,
    SubscriptionData,
)
from wakelog.protocol.body_codec import MessageQueue

FIRST, SECOND = MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)

JAVA = """\
main                                    TID: 1 STATE: RUNNABLE
main                                    java.net.SocketInputStream.socketRead0(Native Method)

AsyncTraceDispatcher                    TID: 9 STATE: RUNNABLE
AsyncTraceDispatcher                    java.net.SocketInputStream.socketRead0(Native Method)

ConsumeMessageThread_2                  TID: 31 STATE: TIMED_WAITING
ConsumeMessageThread_2                  java.lang.Thread.sleep(Native Method)
ConsumeMessageThread_2                  shop.Billing.consumeMessage(Billing.java:31)

ConsumeMessageThread_1                  TID: 30 STATE: TIMED_WAITING
ConsumeMessageThread_1                  java.lang.Thread.sleep(Native Method)
ConsumeMessageThread_1                  shop.Billing.consumeMessage(Billing.java:31)

"""
PYTHON = """\
Task-1
  /app/billing.py:9 in main
  /app/billing.py:12 in consume
Task-2
  /app/wakelog/client/instance.py:90 in _beat
"""


def info(*subscribed: tuple[str, str]) -> ConsumerRunningInfo:
    found = [SubscriptionData(topic=topic, sub_string=text) for topic, text in subscribed]
    return ConsumerRunningInfo(subscription_set=found)


def test_a_subscription_says_which_members_differ() -> None:
    mine = info(("T", "paid"), ("U", "*"))
    others = {"c1": mine, "c2": info(("T", "*"), ("U", "*"), ("V", "*")), "c3": info(("U", "*"))}
    first, second = members.subscription_rows("c1", mine, others)
    assert (first.topic, first.expression) == ("T", "paid")
    assert first.others == {"c2": "*", "c3": "does not subscribe"}
    assert second.others == {}
    assert members.missing_topics("c1", mine, others) == ["V"]


def test_retries_of_the_group_are_no_missing_topic() -> None:
    others = {"c2": info(("%RETRY%g", "*"))}
    assert members.missing_topics("c1", info(), others) == []


def test_queues_come_with_their_lag_the_most_first() -> None:
    process = {"commitOffset": 4, "cachedMsgCount": 3, "locked": True, "lastPullTimestamp": 70}
    held = ConsumerRunningInfo(mq_table={FIRST: {}, SECOND: process})
    group = GroupReading(progress=ConsumeStats({SECOND: OffsetWrapper(9, 4)}))
    first, second = members.held_queues(held, group)
    assert first == members.HeldQueue("T", "b", 1, 5, 4, 3, 0, True, 70, 0)
    assert (second.queue_id, second.lag) == (0, None)


def test_rates_are_those_of_consume_status() -> None:
    status = {"pullRT": 1.5, "consumeOKTPS": 20.0, "consumeFailedMsgs": 3.0}
    [row] = members.rate_rows(ConsumerRunningInfo(status_table={"T": status}))
    assert row == members.RateRow("T", 1.5, 0.0, 0.0, 20.0, 0.0, 3)


def test_a_property_that_is_a_moment_has_its_time() -> None:
    named = {"PROP_CONSUMER_START_TIMESTAMP": "1700000000000", "PROP_NAMESERVER_ADDR": "n:1"}
    first, second = members.property_rows(ConsumerRunningInfo(named))
    assert (first.time_ms, second.time_ms) == (1_700_000_000_000, 0)


def test_threads_that_do_the_same_are_one_row_those_that_consume_first() -> None:
    first, second = members.stacks_of(JAVA).rows
    assert first == members.Stack(
        ["ConsumeMessageThread_1", "ConsumeMessageThread_2"],
        "TIMED_WAITING",
        ("java.lang.Thread.sleep(Native Method)", "shop.Billing.consumeMessage(Billing.java:31)"),
    )
    assert (second.names, second.state) == (["AsyncTraceDispatcher", "main"], "RUNNABLE")
    windows = members.stacks_of(JAVA.replace("\n", "\r\n"))
    assert windows.rows == [first, second]


def test_idle_threads_that_consume_come_first_among_those_of_other_pools() -> None:
    waits = "TID: 1 STATE: WAITING\n\tjava.util.concurrent.LinkedBlockingQueue.take"
    others = "AsyncAppender-1 TID: 2 STATE: WAITING\n\tjava.lang.Object.wait"
    names = ("AsyncTrace_1", "ConsumeMessageThread_1", "Netty_1")
    text = "\n\n".join([others, *(f"{name} {waits}" for name in names)])
    first, second = members.stacks_of(text).rows
    assert first.names == ["ConsumeMessageThread_1", "AsyncTrace_1", "Netty_1"]
    assert second.names == ["AsyncAppender-1"]


def test_tasks_of_python_are_shown_by_name() -> None:
    first, second = members.stacks_of(PYTHON).rows
    assert (first.names, first.state, len(first.frames)) == (["Task-1"], "", 2)
    assert second.names == ["Task-2"]


def test_what_is_shown_of_stacks_is_bounded() -> None:
    text = "\n\n".join(f"t{n} TID: {n} STATE: RUNNABLE\nt{n} frame{n}" for n in range(30_000))
    found = members.stacks_of(text)
    assert len(found.rows) == members.STACKS_MAX
    assert found.hidden == len(text) - members.STACKS_LENGTH_MAX
    assert members.stacks_of("a\x1b[2J").rows[0].names == ["a\\x1b[2J"]


def test_what_is_wrong_with_a_member_is_the_doctor_s_sentence() -> None:
    push = {"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY"}
    process = {"cachedMsgCount": 2, "lastConsumeTimestamp": 1_000}
    stuck = ConsumerRunningInfo(push, mq_table={FIRST: process})
    [found] = members.findings_of("g", "c1", stuck, 121_000)
    assert (found.verdict, found.about) == (PROBLEM, "group g")
    assert found.found.startswith("c1 has consumed nothing of queue 0 of T at b for 120 s")


def test_a_member_is_known_by_its_id_while_it_is_online() -> None:
    client = Connection("c1")
    group = GroupReading(clients=ConsumerConnection([client]))
    assert members.connection_of(group, "c1") is client
    assert members.connection_of(group, "c2") is None
    assert members.connection_of(GroupReading(), "c1") is None
