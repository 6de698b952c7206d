"""Codes 28 and 315."""

from types import SimpleNamespace

import pytest

from tests.broker.harness import NOW_MS, Harness
from wakelog.broker.broker_stats import MINUTE
from wakelog.broker.health_values import ActorHealth, StoreHealth, read_actors, read_store
from wakelog.broker.store_stats import RuntimeMeasures
from wakelog.protocol.bodies import BrokerStatsData, BrokerStatsItem, KVTable, decode_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.storage.file_system import DiskUsage
from wakelog.storage.recovery.quarantine import Quarantined

KEYS = {
    *("bootTimestamp", "runtime", "putMessageEntireTimeMax", "putMessageTimesTotal"),
    *("putMessageFailedTimes", "putMessageSizeTotal", "putMessageDistributeTime"),
    *("putMessageAverageSize", "dispatchMaxBuffer", "getMessageEntireTimeMax", "putTps"),
    *("getFoundTps", "getMissTps", "getTotalTps", "getTransferedTps", "getTransferredTps"),
    *("commitLogDiskRatio", "commitLogDiskRatio_/store/commitlog", "consumeQueueDiskRatio"),
    *("commitLogMinOffset", "commitLogMaxOffset", "brokerVersionDesc", "brokerVersion"),
    *("wakelogVersion", "wakelog.sends"),
    *("wakelog.diskFull", "wakelog.lateSyncMs", "wakelog.logFailure"),
    *("msgPutTotalYesterdayMorning", "msgPutTotalTodayMorning", "msgPutTotalTodayNow"),
    *("msgGetTotalYesterdayMorning", "msgGetTotalTodayMorning", "msgGetTotalTodayNow"),
    *("sendThreadPoolQueueSize", "sendThreadPoolQueueCapacity"),
    *("pullThreadPoolQueueSize", "pullThreadPoolQueueCapacity"),
    *("queryThreadPoolQueueSize", "queryThreadPoolQueueCapacity"),
    *("EndTransactionQueueSize", "EndTransactionThreadPoolQueueCapacity"),
    *("dispatchBehindBytes", "pageCacheLockTimeMills", "sendThreadPoolQueueHeadWaitTimeMills"),
    *("pullThreadPoolQueueHeadWaitTimeMills", "queryThreadPoolQueueHeadWaitTimeMills"),
    *("earliestMessageTimeStamp", "startAcceptSendRequestTimeStamp"),
    *("remainTransientStoreBufferNumbs", "remainHowManyDataToFlush"),
}
"""Without a delayed message, a transient pool and a folder for the store."""


def runtime_info(harness: Harness) -> dict[str, str]:
    response = harness.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
    assert response.code == ResponseCode.SUCCESS
    return decode_body(KVTable, response.body).table


def test_a_new_broker_has_every_name(harness: Harness) -> None:
    info = runtime_info(harness)
    assert info.keys() == KEYS
    assert info["bootTimestamp"] == str(NOW_MS)
    assert info["runtime"] == "[ 0 days, 0 hours, 0 minutes, 0 seconds ]"
    assert info["putMessageTimesTotal"] == "1"  # 4.9.3 shows no 0 here
    assert info["msgPutTotalTodayNow"] == "0"
    assert info["putMessageAverageSize"] == "0.0"
    assert (info["brokerVersionDesc"], info["brokerVersion"]) == ("V4_9_3", "399")
    assert info["earliestMessageTimeStamp"] == "-1"
    assert info["commitLogDiskRatio"] == info["consumeQueueDiskRatio"] == "-1.0"
    assert info["remainTransientStoreBufferNumbs"] == "2147483647"
    assert info["sendThreadPoolQueueCapacity"] == "10000"


def test_what_was_put_is_counted(harness: Harness) -> None:
    for _ in range(4):
        harness.send("T", b"body")
    harness.now_ms += ((49 * 60) + 1) * 60_000 + 5_999
    size_bytes = harness.store.end
    info = runtime_info(harness)
    assert info["runtime"] == "[ 2 days, 1 hours, 1 minutes, 5 seconds ]"
    assert info["putMessageTimesTotal"] == info["msgPutTotalTodayNow"] == "4"
    assert info["putMessageSizeTotal"] == info["commitLogMaxOffset"] == str(size_bytes)
    assert info["putMessageAverageSize"] == str(size_bytes / 4)
    assert info["earliestMessageTimeStamp"] == str(NOW_MS)


def test_each_level_with_deliveries_is_named(harness: Harness) -> None:
    for _ in range(3):
        harness.send(i="DELAY\x012")
    harness.broker.state.delayed.load('{"offsetTable":{2:1}}')
    info = runtime_info(harness)
    assert info["scheduleMessageOffset_2"] == "1,3"
    assert info.keys() == KEYS | {"scheduleMessageOffset_2"}


def test_the_disks_are_measured(harness: Harness) -> None:
    usages = harness.store.usages
    usages["/store"] = DiskUsage(100 << 30, 1, 1536 << 20)
    usages["/store/commitlog"] = DiskUsage(1_000, 500, 499)
    usages["/store/consumequeue"] = DiskUsage(1_000, 70, 930)
    info = runtime_info(harness)
    assert info["commitLogDirCapacity"] == "Total : 100.0 GiB, Free : 1.5 GiB."
    assert info["commitLogDiskRatio"] == info["commitLogDiskRatio_/store/commitlog"] == "0.51"
    assert info["consumeQueueDiskRatio"] == "0.07"


def test_what_the_shell_measures_is_shown(harness: Harness) -> None:
    harness.send("T")
    lanes = {"send": (7, 120), "pull": (2, 3), "query": (1, 0), "endTransaction": (5, 9)}
    measures = RuntimeMeasures(12, 34, flushed=harness.store.end - 9, lanes=lanes)
    harness.broker.state.measure = lambda: measures
    info = runtime_info(harness)
    assert info["putMessageEntireTimeMax"] == "12"
    assert info["getMessageEntireTimeMax"] == "34"
    assert info["remainHowManyDataToFlush"] == "9 B"
    assert info["sendThreadPoolQueueSize"] == "7"
    assert info["sendThreadPoolQueueHeadWaitTimeMills"] == "120"
    assert info["pullThreadPoolQueueHeadWaitTimeMills"] == "3"
    assert info["EndTransactionQueueSize"] == "5"


def test_actors_and_store_are_shown_with_what_is_kept_aside(harness: Harness) -> None:
    actors = {"flush": ActorHealth(is_attached=True, attached_count=2)}
    measures = RuntimeMeasures(actors=actors, store=StoreHealth(clean_exit=0, cut_bytes=354))
    harness.broker.state.measure = lambda: measures
    harness.store.kept_aside = Quarantined(3, 354)
    info = runtime_info(harness)
    assert read_actors(info) == actors
    aside = StoreHealth(0, cut_bytes=354, quarantined_files=3, quarantined_bytes=354)
    assert read_store(info) == aside


def test_the_store_is_sampled_every_second(harness: Harness) -> None:
    for _ in range(11):
        harness.send("T")
        harness.now_ms += 1_000
        harness.broker.tick(harness.now_ms)
    assert runtime_info(harness)["putTps"] == "1.0  "


def viewed(harness: Harness, name: str, key: str) -> BrokerStatsData:
    response = harness.ask(RequestCode.VIEW_BROKER_STATS_DATA, {"statsName": name, "statsKey": key})
    assert response.code == ResponseCode.SUCCESS
    return decode_body(BrokerStatsData, response.body)


def test_an_item_has_a_minute_an_hour_and_a_day(harness: Harness) -> None:
    for _ in range(6):
        harness.send("T")
    assert viewed(harness, "TOPIC_PUT_NUMS", "T") == BrokerStatsData()
    harness.now_ms += 600_000
    harness.broker.tick(harness.now_ms)
    minute, hour = BrokerStatsItem(6, 0.6, 1.0), BrokerStatsItem(6, 0.01, 1.0)
    assert viewed(harness, "TOPIC_PUT_NUMS", "T") == BrokerStatsData(minute, hour)
    assert viewed(harness, "BROKER_PUT_NUMS", "DefaultCluster").stats_minute.sum == 6


def test_what_a_group_received_is_counted_with_its_time(harness: Harness) -> None:
    harness.send("T")
    harness.pulled()
    harness.broker.state.traffic.sample(MINUTE, NOW_MS)
    assert viewed(harness, "GROUP_GET_NUMS", "T@g").stats_minute.sum == 1
    assert viewed(harness, "BROKER_GET_NUMS", "DefaultCluster").stats_minute.sum == 1
    assert viewed(harness, "GROUP_GET_LATENCY", "0@T@g").stats_minute == BrokerStatsItem()


@pytest.mark.parametrize("setting", ["true", "false"])
def test_a_delayed_message_is_counted_in_its_queue(setting: str) -> None:
    harness = Harness(enableScheduleMessageStats=setting)
    harness.send("T", i="DELAY\x012")
    harness.deliver_delayed(2)
    harness.broker.state.traffic.sample(MINUTE, NOW_MS)
    assert viewed(harness, "QUEUE_PUT_NUMS", "SCHEDULE_TOPIC_XXXX@1").stats_minute.sum == 1
    delivered = {"statsName": "TOPIC_PUT_NUMS", "statsKey": "T"}
    response = harness.ask(RequestCode.VIEW_BROKER_STATS_DATA, delivered)
    assert (response.code == ResponseCode.SUCCESS) == (setting == "true")


def test_an_unknown_item_is_an_error(harness: Harness) -> None:
    fields = {"statsName": "TOPIC_PUT_NUMS", "statsKey": "absent"}
    response = harness.ask(RequestCode.VIEW_BROKER_STATS_DATA, fields)
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert response.remark == "The stats <TOPIC_PUT_NUMS> <absent> not exist"


def test_a_pool_says_how_much_is_to_be_copied_and_how_many_buffers_are_free(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness.store, "transient_pool", SimpleNamespace(free_count=3))
    harness.send()
    counted = harness.store.statistics()
    counted["appended_offset"] = counted["max_physical_offset"] + 1_024
    monkeypatch.setattr(harness.store, "statistics", lambda: counted)
    info = runtime_info(harness)
    assert info["remainTransientStoreBufferNumbs"] == "3"
    assert info["remainHowManyDataToCommit"] == "1.0 KiB"
