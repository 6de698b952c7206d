"""The names of rocketmq-exporter: its families with their labels, for boards and alerts of it.

All are gauges, as there. The exporter asked brokers once a minute; here a scrape reads them. What
clients say of themselves was asked behind an earlier scrape. What the exporter never filled is in
`LEFT_OUT`, with the reason.

Source: org.apache.rocketmq.exporter.collector.RMQMetricsCollector, task.MetricsCollectTask
(rocketmq-exporter).
"""

from typing import Final

from wakelog.telemetry.metric_spec import BROKER, MetricSpec, gauge

OF_BROKER = ("cluster", "brokerIP", "broker")
OF_TOPIC = ("cluster", "broker", "topic")
OF_GROUP = ("cluster", "broker", "group")
OF_PAIR = ("cluster", "broker", "topic", "group")
OF_LAG = ("group", "topic", "countOfOnlineConsumers", "msgModel")
OF_CLIENTS = ("caddr", "localaddr", "group")
OF_CLIENT = ("clientAddr", "clientId", "group", "topic")
OF_RUNTIME = ("cluster", "brokerIP", "brokerHost", "des", "boottime", "broker_version")

_QUEUES: Final = f"{BROKER}/queues"
_MINUTE: Final = f"{BROKER}/minute"
_PUT: Final = _MINUTE + "/put_by_topic/{topic:!%}"
_GET: Final = _MINUTE + "/get_by_topic_and_group/{topic:!%}/{group}"
_RUNTIME: Final = f"{BROKER}/brokerHost=/runtime"

# fmt: off
TRAFFIC = (
    gauge("rocketmq_broker_tps", "Messages stored in a second, over the last minute.",
          f"{_MINUTE}/put_messages", shown=OF_BROKER),
    gauge("rocketmq_broker_qps", "Messages handed out in a second, over the last minute.",
          f"{_MINUTE}/get_messages", shown=OF_BROKER),
    gauge("rocketmq_broker_commitlog_diff", "Bytes that the slowest slave lacks of the log.",
          f"{BROKER}/slaves/behind_bytes_max", shown=OF_BROKER),
    gauge("rocketmq_producer_tps", "Messages stored in a second, over the last minute.",
          f"{_PUT}/0", shown=OF_TOPIC),
    gauge("rocketmq_producer_message_size", "Bytes stored in a second, over the last minute.",
          f"{_PUT}/1", shown=OF_TOPIC),
    gauge("rocketmq_consumer_tps", "Messages handed out in a second, over the last minute.",
          f"{_GET}/0", shown=OF_PAIR),
    gauge("rocketmq_consumer_message_size", "Bytes handed out in a second, over the last minute.",
          f"{_GET}/1", shown=OF_PAIR),
    gauge("rocketmq_send_back_nums", "Messages sent back in the last minute.",
          _MINUTE + "/send_back_by_topic_and_group/{topic:!%}/{group}/0", shown=OF_PAIR),
)

OFFSETS = (
    gauge("rocketmq_producer_offset", "Ends of the queues of a topic, added together.",
          _QUEUES + "/max_offset/{topic:!%}/*", shown=OF_TOPIC),
    gauge("rocketmq_topic_retry_offset", "Ends of the queues of a retry topic, added together.",
          _QUEUES + "/max_offset/{topic:%RETRY%}/*", shown=OF_TOPIC),
    gauge("rocketmq_topic_dlq_offset", "Dead letters that a group has ever had.",
          _QUEUES + "/max_offset/%DLQ%{group}/*", shown=OF_GROUP),
    gauge("rocketmq_consumer_offset", "Offsets that a group has committed, added together.",
          _QUEUES + "/consumed/{group}/{topic}", shown=OF_PAIR),
    gauge("rocketmq_group_diff", "Messages that a group has not consumed.",
          _QUEUES + "/lag/{group}/{topic:!%}/*", shown=OF_LAG),
    gauge("rocketmq_group_retrydiff", "Retried messages that a group has not consumed.",
          _QUEUES + "/lag/{group}/{topic:%RETRY%}/*", shown=OF_LAG),
    gauge("rocketmq_group_dlqdiff", "Dead letters that a group which reads them has not consumed.",
          _QUEUES + "/lag/{group}/{topic:%DLQ%}/*", shown=OF_LAG),
    gauge("rocketmq_group_get_latency_by_storetime",
          "Milliseconds since the oldest message was stored that a group has not consumed.",
          _QUEUES + "/oldest_seconds/{group}/{topic}", scale=1000, shown=OF_PAIR),
)

CLIENTS = (
    gauge("rocketmq_group_count", "Clients of a group, at most 100 of them with their addresses.",
          BROKER + "/members/addresses/{group}/{caddr}/{localaddr}", shown=OF_CLIENTS),
    gauge("rocketmq_producer_count", "Connections of a producer group.",
          BROKER + "/members/producers/{group}", shown=OF_GROUP),
)

_RATES: Final = BROKER + "/members/rates/{group}/{topic}/{clientAddr}/{clientId}"

CLIENT_RATES = tuple(
    gauge(f"rocketmq_client_{name}", f"{text}, as a client says.", f"{_RATES}/{value}",
          shown=OF_CLIENT)
    for name, value, text in (
        ("consume_fail_msg_count", "consumeFailedMsgs", "Messages not consumed in the last hour"),
        ("consume_fail_msg_tps", "consumeFailedTPS", "Messages not consumed in a second"),
        ("consume_ok_msg_tps", "consumeOKTPS", "Messages consumed in a second"),
        ("consume_rt", "consumeRT", "Milliseconds that a message took to be consumed"),
        ("consumer_pull_rt", "pullRT", "Milliseconds that a pull took"),
        ("consumer_pull_tps", "pullTPS", "Messages pulled in a second"),
    )
)


def runtime(name: str, text: str, place: str, scale: float = 1.0) -> MetricSpec:
    """Declare a family of code 28's values. place: below `runtime`."""
    name = f"rocketmq_brokeruntime_{name}"
    return gauge(name, text, f"{_RUNTIME}/{place}", scale=scale, shown=OF_RUNTIME)


RATES = tuple(
    runtime(f"{name}_tps{seconds}", f"{text}, a second over {seconds} s.", f"{value}/{place}")
    for name, value, text in (
        ("getfound", "getFoundTps", "Reads of a queue that found messages"),
        ("gettotal", "getTotalTps", "Reads of a queue"),
        ("gettransfered", "getTransferedTps", "Messages handed out"),
        ("getmiss", "getMissTps", "Reads of a queue that found none"),
        ("put", "putTps", "Puts"),
    )
    for place, seconds in enumerate((10, 60, 600))
)

PUT_TIMES = tuple(
    runtime(f"pmdt_{name}", f"Puts of the last full minute that took {name}.", f"put_times/{place}")
    for place, name in enumerate(
        ("0ms", "0to10ms", "10to50ms", "50to100ms", "100to200ms", "200to500ms", "500to1s", "1to2s",
         "2to3s", "3to4s", "4to5s", "5to10s", "10stomore")
    )
)

LANES = tuple(
    runtime(f"{lane}_threadpool{between}queue_{name}", text.format(lane), f"{lane}{value}")
    for lane, between, name, value, text in (
        ("send", "", "capacity", "ThreadPoolQueueCapacity", "Room of the {} lane."),
        ("pull", "", "capacity", "ThreadPoolQueueCapacity", "Room of the {} lane."),
        ("query", "_", "capacity", "ThreadPoolQueueCapacity", "Room of the {} lane."),
        ("send", "_", "size", "ThreadPoolQueueSize", "Requests that wait in the {} lane."),
        ("pull", "", "size", "ThreadPoolQueueSize", "Requests that wait in the {} lane."),
        ("query", "", "size", "ThreadPoolQueueSize", "Requests that wait in the {} lane."),
        *((lane, "", "headwait_timemills", "ThreadPoolQueueHeadWaitTimeMills",
           "Milliseconds that the oldest request of the {} lane has waited.")
          for lane in ("send", "pull", "query")),
    )
)

STORE = (
    runtime("msg_put_total_today_now", "Messages stored since the start.", "msgPutTotalTodayNow"),
    runtime("msg_gettotal_today_now", "Messages handed out since the start.",
            "msgGetTotalTodayNow"),
    runtime("msg_puttotal_todaymorning", "Messages stored until this midnight.",
            "msgPutTotalTodayMorning"),
    runtime("msg_gettotal_todaymorning", "Messages handed out until this midnight.",
            "msgGetTotalTodayMorning"),
    runtime("msg_puttotal_yesterdaymorning", "Messages stored until the midnight before.",
            "msgPutTotalYesterdayMorning"),
    runtime("msg_gettotal_yesterdaymorning", "Messages handed out until the midnight before.",
            "msgGetTotalYesterdayMorning"),
    runtime("dispatch_behind_bytes", "Bytes of the log that are not dispatched.",
            "dispatchBehindBytes"),
    runtime("dispatch_maxbuffer", "0, as in 4.9.3.", "dispatchMaxBuffer"),
    runtime("put_message_size_total", "Bytes stored since the start.", "putMessageSizeTotal"),
    runtime("put_message_average_size", "Bytes of a message on average.",
            "putMessageAverageSize"),
    runtime("putmessage_times_total", "Messages stored since the start, at least 1.",
            "putMessageTimesTotal"),
    runtime("putmessage_entire_time_max", "Milliseconds of the longest put.",
            "putMessageEntireTimeMax"),
    runtime("getmessage_entire_time_max", "Milliseconds of the longest read of a queue.",
            "getMessageEntireTimeMax"),
    runtime("pagecache_lock_time_mills", "0: nothing waits for a lock here.",
            "pageCacheLockTimeMills"),
    runtime("earliest_message_timestamp", "When the oldest message was stored, in milliseconds.",
            "earliestMessageTimeStamp"),
    runtime("start_accept_sendrequest_time", "Since when sends are accepted, in milliseconds.",
            "startAcceptSendRequestTimeStamp"),
    runtime("remain_transientstore_buffer_numbs", "Free buffers of the transient pool.",
            "remainTransientStoreBufferNumbs"),
    gauge("rocketmq_brokeruntime_remain_howmanydata_toflush", "Bytes that are not durable yet.",
          f"{BROKER}/brokerHost=/watermarks/appended",
          minus=f"{BROKER}/brokerHost=/watermarks/flushed", shown=OF_RUNTIME),
    runtime("commitlog_disk_ratio", "Used part of the disk of the log.", "commitLogDiskRatio"),
    runtime("consumequeue_disk_ratio", "Used part of the disk of the queues.",
            "consumeQueueDiskRatio"),
    runtime("commitlogdir_capacity_total", "Bytes that the disk of the store holds.",
            "disk/total"),
    runtime("commitlogdir_capacity_free", "Free bytes of the disk of the store.", "disk/free"),
    runtime("commitlog_minoffset", "Physical offset at which the log begins.",
            "commitLogMinOffset"),
    runtime("commitlog_maxoffset", "Physical offset at which the log ends.",
            "commitLogMaxOffset"),
)
# fmt: on

EXPORTER: Final[tuple[MetricSpec, ...]] = (
    *TRAFFIC, *OFFSETS, *CLIENTS, *CLIENT_RATES, *STORE, *LANES, *RATES, *PUT_TIMES,
)  # fmt: skip

LEFT_OUT: Final[dict[str, str]] = {
    "rocketmq_brokeruntime_put_latency_99": "4.9.3 does not say it; the exporter shows -1",
    "rocketmq_brokeruntime_put_latency_999": "4.9.3 does not say it; the exporter shows -1",
    "rocketmq_group_consume_tps": "the exporter declares it, and never fills it",
    "rocketmq_group_consume_total_offset": "the exporter declares it, and never fills it",
}
"""Families of the exporter that are not here, and why."""
