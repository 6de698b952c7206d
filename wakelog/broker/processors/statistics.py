"""Codes 28 and 315: what the broker as a whole has done, and one item of its statistics.

Code 28 answers texts. Tools split and parse them, so each has 4.9.3's form, and each name is there.
``getTransferredTps`` is 5.x's spelling of ``getTransferedTps``; exporters look for either.

Source: org.apache.rocketmq.broker.processor.AdminBrokerProcessor.prepareRuntimeInfo,
ViewBrokerStatsData, org.apache.rocketmq.store.DefaultMessageStore.getRuntimeInfo (4.9.3).
"""

from collections.abc import Callable

from wakelog.broker.decision import Lane, Outcome
from wakelog.broker.effects import Work, make_body
from wakelog.broker.health_values import (
    DISK_FULL_VALUE,
    LATE_SYNC_VALUE,
    LOG_FAILURE_VALUE,
    SENDS_VALUE,
    actor_values,
    store_values,
)
from wakelog.broker.state import BrokerState
from wakelog.broker.store_stats import RuntimeMeasures
from wakelog.broker.trouble import NOTICE_PREFIX, runtime_values
from wakelog.compiled.library import CHOICE
from wakelog.network.request import Request
from wakelog.protocol.bodies import BrokerStatsData, BrokerStatsItem, KVTable, encode_body
from wakelog.protocol.codes import VERSION_4_9_3, ResponseCode
from wakelog.protocol.headers.admin import ViewBrokerStatsDataRequestHeader
from wakelog.protocol.java import INT_MAX, double_text
from wakelog.protocol.names import SCHEDULE_TOPIC
from wakelog.storage.file_system import DiskUsage
from wakelog.telemetry.build import version

VERSION_DESC = "V4_9_3"
_UNKNOWN_RATIO = -1.0


def view_broker_stats_data(
    state: BrokerState, request: Request[ViewBrokerStatsDataRequestHeader]
) -> Outcome:
    """Return minute, hour and day of one item (code 315)."""
    name, key = request.header.stats_name, request.header.stats_key
    found = state.traffic.snapshots(name, key)
    if found is None:
        remark = f"The stats <{name}> <{key}> not exist"
        return request.refusal(ResponseCode.SYSTEM_ERROR, remark)
    body = BrokerStatsData(*(BrokerStatsItem(*snapshot) for snapshot in found))
    return request.success(body=encode_body(body))


def get_broker_runtime_info(state: BrokerState, request: Request[None]) -> Work:
    """Return names and values of the broker's state (code 28)."""
    read = runtime_texts(state, request.now_ms)
    return make_body(request, lambda: encode_body(KVTable(read())))


def runtime_texts(state: BrokerState, now_ms: int) -> Callable[[], dict[str, str]]:
    """Return what adds the values that wait for the disk, on any thread, and returns all."""
    measures = state.measure()
    values = known_values(state, measures, now_ms)
    delays = state.delayed.offsets()

    def read() -> dict[str, str]:
        store = state.store
        for level, offset in delays.items():
            end = store.max_queue_offset(SCHEDULE_TOPIC, level - 1)
            values[f"scheduleMessageOffset_{level}"] = f"{offset},{end}"
        values["earliestMessageTimeStamp"] = str(store.earliest_message_time())
        values.update(_disk_values(state, store.disk_usages()))
        if (health := measures.store) is not None:
            files, size_bytes = store.quarantined()
            health = health._replace(quarantined_files=files, quarantined_bytes=size_bytes)
            values.update(store_values(health))
        return values

    return read


def known_values(state: BrokerState, measures: RuntimeMeasures, now_ms: int) -> dict[str, str]:
    """Return what the broker says of itself without asking the disk, which may hang."""
    return {
        **_store_values(state, now_ms, measures),
        **_broker_values(state, measures),
        **_health_values(measures),
        **state.member_values(),
        **runtime_values(measures.troubles),
        **runtime_values(measures.notices, NOTICE_PREFIX),
        **actor_values(measures.actors),
    }


def _health_values(measures: RuntimeMeasures) -> dict[str, str]:
    return {
        DISK_FULL_VALUE: str(int(measures.disk_full)),
        LATE_SYNC_VALUE: str(measures.late_sync_ms),
        LOG_FAILURE_VALUE: measures.log_failure,
    }


def _store_values(state: BrokerState, now_ms: int, measures: RuntimeMeasures) -> dict[str, str]:
    counts, stats = state.store.statistics(), state.store_stats
    # 4.9.3 divides by it, and shows 1 for none.
    put_count = counts["put_count"] or 1
    rates = stats.rates()
    values = {
        "bootTimestamp": stats.boot_ms,
        "runtime": _runtime_text(now_ms - stats.boot_ms),
        "putMessageEntireTimeMax": measures.put_ms_max,
        "putMessageTimesTotal": put_count,
        "putMessageFailedTimes": counts["put_failed_count"],
        "putMessageSizeTotal": counts["put_bytes"],
        "putMessageDistributeTime": stats.put_times_text(),
        "putMessageAverageSize": double_text(counts["put_bytes"] / put_count),
        "dispatchMaxBuffer": 0,  # as in 4.9.3, where nothing sets it
        "getMessageEntireTimeMax": measures.get_ms_max,
        **rates,
        "getTransferredTps": rates["getTransferedTps"],
        "commitLogMinOffset": counts["min_physical_offset"],
        "commitLogMaxOffset": counts["max_physical_offset"],
        "dispatchBehindBytes": counts["max_physical_offset"] - counts["dispatched"],
        "remainHowManyDataToFlush": _bytes_text(counts["max_physical_offset"] - measures.flushed),
        "remainTransientStoreBufferNumbs": INT_MAX,
    }
    if state.store.transient_pool is not None:
        behind_bytes = counts["appended_offset"] - counts["max_physical_offset"]
        values["remainHowManyDataToCommit"] = _bytes_text(behind_bytes)
        values["remainTransientStoreBufferNumbs"] = state.store.transient_pool.free_count
    return {name: str(value) for name, value in values.items()}


def _broker_values(state: BrokerState, measures: RuntimeMeasures) -> dict[str, str]:
    config, stats = state.config, state.store_stats
    counts = state.store.statistics()
    yesterday, today = stats.yesterday_morning, stats.today_morning
    values = {
        "brokerVersionDesc": VERSION_DESC,
        "brokerVersion": VERSION_4_9_3,
        "wakelogVersion": version(),  # 4.9.3 has no such name
        SENDS_VALUE: str(CHOICE),
        "msgPutTotalYesterdayMorning": yesterday.put_count,
        "msgPutTotalTodayMorning": today.put_count,
        "msgPutTotalTodayNow": counts["put_count"],
        "msgGetTotalYesterdayMorning": yesterday.transferred_count,
        "msgGetTotalTodayMorning": today.transferred_count,
        "msgGetTotalTodayNow": counts["get_message_count"],
        "EndTransactionQueueSize": measures.waiting(Lane.END_TRANSACTION),
        "EndTransactionThreadPoolQueueCapacity": config.end_transaction_pool_queue_capacity,
        "pageCacheLockTimeMills": 0,  # one thread appends: nothing waits for a lock
        "startAcceptSendRequestTimeStamp": config.start_accept_send_request_time_stamp,
    }
    for lane, capacity_count in (
        (Lane.SEND, config.send_thread_pool_queue_capacity),
        (Lane.PULL, config.pull_thread_pool_queue_capacity),
        (Lane.QUERY, config.query_thread_pool_queue_capacity),
    ):
        values[f"{lane}ThreadPoolQueueSize"] = measures.waiting(lane)
        values[f"{lane}ThreadPoolQueueCapacity"] = capacity_count
        values[f"{lane}ThreadPoolQueueHeadWaitTimeMills"] = measures.head_wait_ms(lane)
    return {name: str(value) for name, value in values.items()}


def _disk_values(state: BrokerState, usages: dict[str, DiskUsage]) -> dict[str, str]:
    """Return how full the disks are; a folder that is not there is -1.0."""
    paths = state.store_config.paths
    ratios = {path: _used_ratio(usages.get(path)) for path in paths.commit_log_directories}
    values = {f"commitLogDiskRatio_{path}": double_text(x) for path, x in ratios.items()}
    values["commitLogDiskRatio"] = double_text(min(ratios.values()))
    values["consumeQueueDiskRatio"] = double_text(_used_ratio(usages.get(paths.consume_queue_root)))
    root = usages.get(paths.root)
    if root is not None:
        total, free = _bytes_text(root.total_bytes), _bytes_text(root.free_bytes)
        values["commitLogDirCapacity"] = f"Total : {total}, Free : {free}."
    return values


def _used_ratio(usage: DiskUsage | None) -> float:
    percent = None if usage is None else usage.used_percent
    return _UNKNOWN_RATIO if percent is None else percent / 100


def _runtime_text(elapsed_ms: int) -> str:
    minutes, seconds = divmod(max(0, elapsed_ms) // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days:,} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def _bytes_text(size_bytes: int) -> str:
    """Write a size as 4.9.3's MixAll.humanReadableByteCount does."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    exponent = (size_bytes.bit_length() - 1) // 10
    return f"{size_bytes / 1024**exponent:.1f} {'KMGTPE'[exponent - 1]}iB"
