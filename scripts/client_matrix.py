"""docs/compatibility.md: what the Python client does, beside Java, and which test shows it.

A proof is the name of a test, or of a row of `tests/compat/test_client_matrix.py`, which holds that
each of its rows is listed here. Those tests run once at a 4.9.3 broker and once at wakelog's.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

HEADS: Final = ("feature", "shown at both brokers", "by")

INTRODUCTION: Final = """\
What `wakelog.client` does at a broker and a name server of 4.9.3, and at wakelog's, beside the Java
client of 4.9.3. Each line names its tests. A name without `test_` is a row of
`tests/compat/test_client_matrix.py`. All of them run the real 4.9.3.

`./dev test` runs most of them at one of the brokers in turn, `./dev long` all at both. What is
shown at no real broker is in the last table, with the reason."""

ALONE: Final = """\
RocketMQ 4.9.3 compresses by zlib alone. Bodies in lz4 and zstd come from clients of 5.x; to read
them takes the package `lz4` or `zstandard`."""


class Feature(NamedTuple):
    """One line of the table. proofs: names of tests and of rows."""

    name: str
    shown: str
    proofs: tuple[str, ...]


SENDING: Final = (
    Feature(
        "send, batch, one-way, many at once",
        "Python and Java members of one group get each message once, whichever of them sent it",
        (
            "python_sends_in_every_way",
            "java_sends_in_every_way",
            "test_java_consumes_all_that_python_sends",
        ),
    ),
    Feature(
        "ordered send",
        "messages of one sharding key are in one queue, in order, and in the queue of Java's hash",
        (
            "test_messages_of_a_key_are_in_one_queue_in_order",
            "test_a_sharding_key_chooses_one_queue_as_java_would",
        ),
    ),
    Feature(
        "delay",
        "a delayed message of either client arrives late, at either client",
        ("test_java_consumes_all_that_python_sends", "java_sends_in_every_way"),
    ),
    Feature(
        "transactions",
        "Java gets what Python commits and the other way round; the check of another producer of "
        "the group ends an open one",
        (
            "test_java_consumes_what_was_committed_only",
            "test_the_check_of_another_producer_ends_an_open_transaction",
            "java_sends_in_every_way",
        ),
    ),
    Feature(
        "request-reply",
        "Java replies to Python, Python to Java, and both in one group to Python",
        (
            "test_java_replies_to_a_request",
            "test_python_replies_to_a_java_client",
            "both_reply_in_one_group",
        ),
    ),
    Feature(
        "compression by zlib",
        "each client inflates what the other has compressed",
        ("test_python_consumes_what_java_sends", "test_java_consumes_all_that_python_sends"),
    ),
)

CONSUMING: Final = (
    Feature(
        "a shared group",
        "Python and Java members have disjoint queues; when Java leaves, Python has all of them",
        ("circle", "order_in_a_mixed_group"),
    ),
    Feature(
        "strategies AVG, AVG_BY_CIRCLE, CONSISTENT_HASH",
        "one Python and two Java members share the queues without an overlap or a gap",
        ("python_sends_in_every_way", "circle", "consistent_hash"),
    ),
    Feature(
        "ordered consumption",
        "each queue is in order in a mixed group, also over the leaving of Java's member",
        ("order_in_a_mixed_group",),
    ),
    Feature(
        "retries and dead letters",
        "Java gets what Python gave back, with its count; Python reads what Java gave up",
        (
            "retries_in_a_mixed_group",
            "a_dead_letter_of_java",
            "test_what_fails_is_consumed_again_and_then_a_dead_letter",
        ),
    ),
    Feature(
        "`wakelog dlq ls`, `show`, `export`, `resend`",
        "dead letters of Java are listed and exported; what is resent comes to its group alone",
        ("dead_letters_by_command_line",),
    ),
    Feature(
        "back-pressure",
        "a slow Python member holds its limit and no more, Java's goes on; senders wait for room",
        ("a_slow_member_takes_no_more_than_its_limit", "senders_wait_for_a_full_producer"),
    ),
    Feature(
        "Arrow tables",
        "a table has what Java sent; Java's client sees the offset of its acknowledgement",
        ("a_table_of_what_java_sent",),
    ),
    Feature(
        "acks out of order",
        "Java goes on at the first message that Python has not acknowledged",
        ("acks_out_of_order",),
    ),
    Feature(
        "tags and SQL92",
        "both members of a group get what their common filter lets pass",
        ("filters_by_tags", "filters_by_sql"),
    ),
    Feature(
        "broadcasting",
        "a Python and a Java consumer of one group get all; Python's offsets are in its file",
        (
            "test_a_broadcast_reaches_python_and_java",
            "test_a_broadcast_reaches_every_python_consumer",
        ),
    ),
    Feature(
        "manual assignment, seek",
        "a time means the first message of then or later; Java's finds any of its millisecond",
        ("seeks_as_java_does",),
    ),
    Feature(
        "mqadmin",
        "it sees a Python consumer, resets its offsets, and lets it consume one message",
        ("test_operators_see_a_python_consumer_and_reset_it",),
    ),
    Feature(
        "message trace",
        "mqadmin and `wakelog admin` print the same of a message that Python or Java sent and both "
        "consumed",
        ("both_trace", "the_trace_of_a_python_consumer", "test_it_sends_without_asyncio"),
    ),
    Feature(
        "admin client",
        "it sees what Java sees of topics, groups and lag; `wakelog admin` prints what mqadmin "
        "prints",
        ("the_admin_sees_what_java_did", "test_commands_say_what_mqadmin_says"),
    ),
)

CONNECTING: Final = (
    Feature(
        "TLS",
        "a Python and a Java member share a group over TLS; a certificate without trust is refused",
        ("test_a_group_of_python_and_java_works_with_tls",),
    ),
    Feature(
        "TLS enforced, with client certificates",
        "members that have a certificate share a group; one without gets one clear error, and "
        "`wakelog send` has its own from a tls.properties",
        ("test_members_with_certificates_share_a_group",),
    ),
    Feature(
        "errors",
        "code, broker, remark and remedy of the last attempt, from either broker",
        ("a_refusal_names_broker_and_reason",),
    ),
    Feature(
        "accounts",
        "with its rights an account sends and consumes; a wrong key or a missing right is an error",
        (
            "test_a_consumer_needs_an_account_with_its_rights",
            "test_an_account_that_may_not_send_gets_one_clear_error",
        ),
    ),
    Feature(
        "fail-over of name servers and brokers",
        "in a cluster of both kinds, 4.9.3's name server and broker are killed: sends go on, and "
        "what the broker has is consumed when it is back",
        ("test_clients_go_on_while_a_name_server_and_a_broker_are_away",),
    ),
    Feature(
        "reads from a slave (of 4.9.3)",
        "pulls go to the slave that its master suggests, and to the slave of a killed master",
        ("test_a_consumer_reads_from_the_slave_that_4_9_3_suggests",),
    ),
    Feature(
        "restarts, dropped connections, rebalance every 20 s",
        "two mixed groups lose nothing and keep their order "
        "([results](../benchmarks/results/consumers.md))",
        ("test_nothing_is_lost_while_members_connections_and_broker_come_and_go",),
    ),
)

UNIT: Final = (
    Feature(
        "lz4 and zstd",
        "bodies are read up to the limit; without the package the error names it",
        ("test_lz4_is_read_up_to_the_limit", "test_zstd_is_read_in_pieces_up_to_the_limit"),
    ),
    Feature(
        "fail-over and slaves without sockets",
        "locks, filters and queues at the brokers that answer; a slave that fails is left",
        (
            "test_a_group_is_shared_by_the_brokers_that_answer",
            "test_locks_are_renewed_at_the_brokers_that_answer",
            "test_a_slave_is_read_when_the_broker_suggests_it_and_nothing_else_is_sent_to_it",
            "test_a_slave_that_fails_is_left_for_the_master",
        ),
    ),
)

SECTIONS: Final = {
    "Sending": SENDING,
    "Consuming": CONSUMING,
    "Connections": CONNECTING,
}

FEATURES: Final = (*SENDING, *CONSUMING, *CONNECTING, *UNIT)


def cells(features: tuple[Feature, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each line."""
    for feature in features:
        yield feature.name, feature.shown, ", ".join(f"`{proof}`" for proof in feature.proofs)
