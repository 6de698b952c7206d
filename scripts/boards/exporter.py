"""The panels of rocketmq-exporter's own board, with the labels that its metrics have.

Its board asks for labels that no series has, `Cluster` and `Env`. The deployment has to serve the
names of the exporter.
"""

from scripts.boards.grafana import (
    BYTES,
    BYTES_PER_SECOND,
    COUNT,
    MESSAGES_PER_SECOND,
    MILLISECONDS,
    OF_INSTANCE,
    RATIO,
    Board,
    Panel,
    Variable,
    bars,
    gauge,
    graph,
    table,
)

OF_CLUSTER = f'{OF_INSTANCE},cluster=~"$cluster"'
OF_BROKER = f'{OF_CLUSTER},broker=~"$broker"'
OF_TOPIC = f'{OF_BROKER},topic=~"$topic"'
OF_PAIR = f'{OF_TOPIC},group=~"$group"'
OF_LAG = f'{OF_INSTANCE},topic=~"$topic",group=~"$group"'

MANY = 100_000
"""Messages behind that are many, as its board has it."""


def values(name: str, labels: str, label: str) -> str:
    """Return the query of a variable: the values that a label has."""
    return f"label_values({name}{{{labels}}}, {label})"


def runtime(name: str) -> str:
    """Return a family of brokers' runtime values."""
    return f"sum by (brokerIP) (rocketmq_brokeruntime_{name}{{{OF_CLUSTER}}})"


def put_times(*names: str) -> str:
    """Return how many puts of the last full minute took so long, in all brokers."""
    return " + ".join(f"sum(rocketmq_brokeruntime_pmdt_{name}{{{OF_CLUSTER}}})" for name in names)


def slow_puts() -> str:
    """Return how many puts of the last full minute took over 200 ms, by broker."""
    names = ("200to500ms", "500to1s", "1to2s", "2to3s", "3to4s", "4to5s", "5to10s", "10stomore")
    return " + ".join(runtime(f"pmdt_{name}") for name in names)


def between(begin: str, end: str) -> str:
    """Return by how much one runtime value is above another."""
    return f"{runtime(end)} - {runtime(begin)}"


CLUSTER: tuple[Panel, ...] = (
    table(
        "Brokers",
        "Brokers with their addresses, and messages stored in a second.",
        MESSAGES_PER_SECOND,
        (f"sum by (cluster, broker, brokerIP) (rocketmq_broker_tps{{{OF_CLUSTER}}})", "in"),
    ),
)

STATE: tuple[Panel, ...] = (
    gauge(
        "Disk used",
        "Used part of the disk of the log.",
        RATIO,
        (runtime("commitlog_disk_ratio"), "{{brokerIP}}"),
    ),
    graph(
        "Put times",
        "Puts of the last full minute by how long they took.",
        COUNT,
        (put_times("0ms"), "0 ms"),
        (put_times("0to10ms"), "0 to 10 ms"),
        (put_times("10to50ms"), "10 to 50 ms"),
        (put_times("50to100ms"), "50 to 100 ms"),
        (put_times("100to200ms"), "100 to 200 ms"),
        (put_times("200to500ms"), "200 to 500 ms"),
        (put_times("500to1s"), "500 ms to 1 s"),
        (put_times("1to2s"), "1 to 2 s"),
        (put_times("2to3s"), "2 to 3 s"),
        (put_times("3to4s", "4to5s", "5to10s", "10stomore"), "over 3 s"),
    ),
    graph(
        "Slow brokers",
        "Puts of the last full minute that took over 200 ms: sends may be refused.",
        COUNT,
        (slow_puts(), "{{brokerIP}}"),
    ),
    graph(
        "Waiting requests",
        "How long the oldest request of a lane has waited.",
        MILLISECONDS,
        (runtime("send_threadpoolqueue_headwait_timemills"), "{{brokerIP}} send"),
        (runtime("pull_threadpoolqueue_headwait_timemills"), "{{brokerIP}} pull"),
        (runtime("query_threadpoolqueue_headwait_timemills"), "{{brokerIP}} query"),
    ),
    graph(
        "Not dispatched",
        "Bytes of the log that are not in the queues yet.",
        BYTES,
        (runtime("dispatch_behind_bytes"), "{{brokerIP}}"),
    ),
    graph(
        "Age of the lag",
        "How long ago the oldest message was stored that a group has not consumed.",
        MILLISECONDS,
        (
            f"max by (broker, topic, group) (rocketmq_group_get_latency_by_storetime{{{OF_PAIR}}})",
            "{{broker}} {{topic}} {{group}}",
        ),
    ),
    table(
        "Messages by day",
        "Messages stored and handed out until today's midnight, and since.",
        COUNT,
        (between("msg_puttotal_yesterdaymorning", "msg_puttotal_todaymorning"), "in yesterday"),
        (between("msg_puttotal_todaymorning", "msg_put_total_today_now"), "in today"),
        (between("msg_gettotal_yesterdaymorning", "msg_gettotal_todaymorning"), "out yesterday"),
        (between("msg_gettotal_todaymorning", "msg_gettotal_today_now"), "out today"),
        (runtime("earliest_message_timestamp"), "oldest message"),
    ),
)

MESSAGES: tuple[Panel, ...] = (
    graph(
        "Broker in",
        "Messages stored in a second, by broker.",
        MESSAGES_PER_SECOND,
        (f"sum by (broker) (rocketmq_broker_tps{{{OF_BROKER}}})", "{{broker}}"),
    ),
    graph(
        "Broker out",
        "Messages handed out in a second, by broker.",
        MESSAGES_PER_SECOND,
        (f"sum by (broker) (rocketmq_broker_qps{{{OF_BROKER}}})", "{{broker}}"),
    ),
    graph(
        "Producers",
        "Messages stored in a second, by broker and topic.",
        MESSAGES_PER_SECOND,
        (f"sum by (broker, topic) (rocketmq_producer_tps{{{OF_TOPIC}}})", "{{broker}} {{topic}}"),
    ),
    graph(
        "Producers in total",
        "Messages stored in a second, by topic.",
        MESSAGES_PER_SECOND,
        (f"sum by (topic) (rocketmq_producer_tps{{{OF_TOPIC}}})", "{{topic}}"),
    ),
    graph(
        "Consumers",
        "Messages handed out in a second, by broker, topic and group.",
        MESSAGES_PER_SECOND,
        (
            f"sum by (broker, topic, group) (rocketmq_consumer_tps{{{OF_PAIR}}})",
            "{{broker}} {{topic}} {{group}}",
        ),
    ),
    graph(
        "Consumers in total",
        "Messages handed out in a second, by group.",
        MESSAGES_PER_SECOND,
        (f"sum by (group) (rocketmq_consumer_tps{{{OF_PAIR}}})", "{{group}}"),
    ),
)

SIZES: tuple[Panel, ...] = (
    graph(
        "Broker in",
        "Bytes stored in a second, by broker.",
        BYTES_PER_SECOND,
        (f"sum by (broker) (rocketmq_producer_message_size{{{OF_BROKER}}})", "{{broker}}"),
    ),
    graph(
        "Broker out",
        "Bytes handed out in a second, by broker.",
        BYTES_PER_SECOND,
        (f"sum by (broker) (rocketmq_consumer_message_size{{{OF_BROKER}}})", "{{broker}}"),
    ),
    graph(
        "Topics",
        "Bytes stored in a second, by topic.",
        BYTES_PER_SECOND,
        (f"sum by (topic) (rocketmq_producer_message_size{{{OF_TOPIC}}})", "{{topic}}"),
    ),
    graph(
        "Groups",
        "Bytes handed out in a second, by topic and group.",
        BYTES_PER_SECOND,
        (
            f"sum by (topic, group) (rocketmq_consumer_message_size{{{OF_PAIR}}})",
            "{{topic}} {{group}}",
        ),
    ),
)

_DIFF = f"sum by (group, topic) (rocketmq_group_diff{{{OF_LAG}}})"

LAGS: tuple[Panel, ...] = (
    graph(
        "Behind",
        "Messages that a group has not consumed, up to 100,000.",
        COUNT,
        (f"{_DIFF} <= {MANY}", "{{topic}} {{group}}"),
    ),
    graph(
        "Ahead",
        "Groups that have committed more than there is: none, unless something is wrong.",
        COUNT,
        (f"{_DIFF} < 0", "{{topic}} {{group}}"),
    ),
    graph(
        "Far behind",
        "Messages that a group has not consumed, over 100,000.",
        COUNT,
        (f"{_DIFF} > {MANY}", "{{topic}} {{group}}"),
    ),
    graph(
        "Retries behind",
        "Messages to be tried again that a group has not consumed.",
        COUNT,
        (
            f'sum by (group) (rocketmq_group_retrydiff{{{OF_INSTANCE},group=~"$group"}})',
            "{{group}}",
        ),
    ),
    table(
        "Members",
        "Clients of each group, and their addresses.",
        COUNT,
        (
            "sum by (group, caddr, localaddr) "
            f'(rocketmq_group_count{{{OF_INSTANCE},group=~"$group"}})',
            "clients",
        ),
    ),
)

OF_CLIENT = f'{OF_INSTANCE},topic=~"$topic",group=~"$group"'


def of_clients(title: str, description: str, unit: str, name: str) -> Panel:
    """Return lines of what clients say of themselves."""
    labels = ("clientAddr", "clientId", "group", "topic")
    expression = f"sum by ({', '.join(labels)}) (rocketmq_client_{name}{{{OF_CLIENT}}})"
    legend = "{{topic}} {{group}} {{clientAddr}} {{clientId}}"
    return graph(title, f"{description}, as each client says.", unit, (expression, legend))


CLIENTS: tuple[Panel, ...] = (
    of_clients("Failed", "Messages not consumed in the last hour", COUNT, "consume_fail_msg_count"),
    of_clients(
        "Failing",
        "Messages not consumed in a second",
        MESSAGES_PER_SECOND,
        "consume_fail_msg_tps",
    ),
    of_clients(
        "Consumed", "Messages consumed in a second", MESSAGES_PER_SECOND, "consume_ok_msg_tps"
    ),
    of_clients(
        "Time to consume", "How long a message took to be consumed", MILLISECONDS, "consume_rt"
    ),
    of_clients("Time to pull", "How long a pull took", MILLISECONDS, "consumer_pull_rt"),
    of_clients("Pulled", "Messages pulled in a second", MESSAGES_PER_SECOND, "consumer_pull_tps"),
)

OFFSETS: tuple[Panel, ...] = (
    bars(
        "Begin of the log",
        "Physical offset at which the log begins.",
        BYTES,
        (runtime("commitlog_minoffset"), "{{brokerIP}}"),
    ),
    bars(
        "Size of the log",
        "Bytes between the begin and the end of the log.",
        BYTES,
        (between("commitlog_minoffset", "commitlog_maxoffset"), "{{brokerIP}}"),
    ),
    bars(
        "End of the log",
        "Physical offset at which the log ends.",
        BYTES,
        (runtime("commitlog_maxoffset"), "{{brokerIP}}"),
    ),
    table(
        "Topics",
        "Messages that a topic has ever taken.",
        COUNT,
        (f"sum by (broker, topic) (rocketmq_producer_offset{{{OF_TOPIC}}})", "messages"),
    ),
    table(
        "Retry topics",
        "Messages that a group has ever sent back to try again.",
        COUNT,
        (f"sum by (broker, topic) (rocketmq_topic_retry_offset{{{OF_BROKER}}})", "messages"),
    ),
    table(
        "Dead letters",
        "Messages that a group has ever given up.",
        COUNT,
        (f"sum by (broker, group) (rocketmq_topic_dlq_offset{{{OF_BROKER}}})", "messages"),
    ),
    table(
        "Groups",
        "Offsets that a group has committed, added together.",
        COUNT,
        (f"sum by (broker, topic, group) (rocketmq_consumer_offset{{{OF_PAIR}}})", "messages"),
    ),
)

BOARD = Board(
    name="exporter",
    title="RocketMQ exporter",
    sections={
        "Cluster": CLUSTER,
        "State": STATE,
        "Messages": MESSAGES,
        "Sizes": SIZES,
        "Lags": LAGS,
        "Clients": CLIENTS,
        "Offsets": OFFSETS,
    },
    variables=(
        Variable("instance", "Deployment", "label_values(rocketmq_broker_tps, instance)"),
        Variable("cluster", "Cluster", values("rocketmq_broker_tps", OF_INSTANCE, "cluster")),
        Variable("broker", "Broker", values("rocketmq_broker_tps", OF_CLUSTER, "broker")),
        Variable("topic", "Topic", values("rocketmq_producer_offset", OF_CLUSTER, "topic")),
        Variable("group", "Group", values("rocketmq_consumer_offset", OF_CLUSTER, "group")),
    ),
)
