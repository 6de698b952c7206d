"""RocketMQ's keys and defaults, and what is said of a value that cannot be used."""

from __future__ import annotations

import msgspec
import pytest

from wakelog.storage.config import BrokerRole, FlushDiskType, StoreConfig
from wakelog.storage.errors import IllegalConfiguration

# Defaults of 4.9.3's MessageStoreConfig, as its own broker prints them with -p.
DEFAULTS = """
mappedFileSizeCommitLog=1073741824 mappedFileSizeConsumeQueue=6000000 enableConsumeQueueExt=false
mappedFileSizeConsumeQueueExt=50331648 bitMapLengthConsumeQueueExt=64 flushIntervalCommitLog=500
commitIntervalCommitLog=200 flushIntervalConsumeQueue=1000 cleanResourceInterval=10000
deleteCommitLogFilesInterval=100 deleteConsumeQueueFilesInterval=100
destroyMapedFileIntervalForcibly=120000 redeleteHangedFileInterval=120000 deleteWhen=04
diskMaxUsedSpaceRatio=75 fileReservedTime=72 maxMessageSize=4194304 checkCRCOnRecover=true
flushCommitLogLeastPages=4 commitCommitLogLeastPages=4 flushConsumeQueueLeastPages=2
flushCommitLogThoroughInterval=10000 commitCommitLogThoroughInterval=200
flushConsumeQueueThoroughInterval=60000 maxTransferBytesOnMessageInMemory=262144
maxTransferCountOnMessageInMemory=32 maxTransferBytesOnMessageInDisk=65536
maxTransferCountOnMessageInDisk=8 accessMessageInMemoryMaxRatio=40 messageIndexEnable=true
maxHashSlotNum=5000000 maxIndexNum=20000000 maxMsgsNumBatch=64 messageIndexSafe=false
haListenPort=10912 haSendHeartbeatInterval=5000 haHousekeepingInterval=20000
haTransferBatchSize=32768 haSlaveFallbehindMax=268435456 brokerRole=ASYNC_MASTER
flushDiskType=ASYNC_FLUSH syncFlushTimeout=5000 slaveTimeout=3000 flushDelayOffsetInterval=10000
cleanFileForciblyEnable=true offsetCheckInSlave=false duplicationEnable=false diskFallRecorded=true
osPageCacheBusyTimeOutMills=1000 defaultQueryMaxNum=32 transientStorePoolEnable=false
transientStorePoolSize=5 fastFailIfNoBufferInStorePool=false enableScheduleMessageStats=true
enableLmq=false enableMultiDispatch=false maxLmqConsumeQueueNum=20000
enableScheduleAsyncDeliver=false scheduleAsyncDeliverMaxPendingLimit=2000
scheduleAsyncDeliverMaxResendNum2Blocked=3
"""


def test_defaults_are_those_of_rocketmq() -> None:
    expected = dict(pair.split("=") for pair in DEFAULTS.split())
    expected["storePathRootDir"] = "/s"
    # Not RocketMQ's: both off, so that nothing is lost that need not be.
    expected["scrubBytesPerSecond"] = str(1 << 20)
    expected["compat.skip_segment"] = expected["compat.cut_at_damage"] = "false"
    expected["fileReservedBytes"] = "0"
    expected["parquetDispatcher"] = "false"
    expected["parquetFileBytes"], expected["parquetFileAgeMs"] = str(64 << 20), "300000"
    expected["messageDelayLevel"] = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    assert StoreConfig(store_path_root="/s").to_properties() == expected


def test_properties_go_both_ways() -> None:
    config = StoreConfig(
        store_path_root="/s",
        store_path_commit_log="/a/log,/b/log",
        ha_master_address="10.0.0.1:10912",
        flush_disk_type=FlushDiskType.SYNC_FLUSH,
        broker_role=BrokerRole.SYNC_MASTER,
        enable_lmq=True,
        commit_log_file_bytes=65_536,
    )
    assert StoreConfig.from_properties(config.to_properties()) == config


def test_every_field_has_a_key_of_its_own() -> None:
    fields = msgspec.structs.fields(StoreConfig)
    assert len({field.encode_name for field in fields}) == len(fields)
    keys_of_rocketmq = [f.encode_name for f in fields if not f.encode_name.startswith("compat.")]
    assert all("_" not in key for key in keys_of_rocketmq)


def test_other_objects_keys_are_left_alone() -> None:
    config = StoreConfig.from_properties({"storePathRootDir": "/s", "brokerName": "broker-a"})
    assert config == StoreConfig(store_path_root="/s")


@pytest.mark.parametrize(
    ("key", "text", "accepted"),
    [
        ("flushDiskType", "SOMETIMES", "ASYNC_FLUSH or SYNC_FLUSH"),
        ("brokerRole", "master", "ASYNC_MASTER or SYNC_MASTER or SLAVE"),
        ("messageIndexEnable", "yes", "true or false"),
        ("maxMessageSize", "4M", "a whole number"),
        ("maxMessageSize", "0", "1 to 2147483647"),
        ("mappedFileSizeCommitLog", "3000000000", "1024 to 2147483647"),
        ("destroyMapedFileIntervalForcibly", "", "a whole number"),
        ("storePathRootDir", "store", "an absolute path"),
        ("storePathRootDir", "", "an absolute path"),
        ("storePathCommitLog", "/a,b", "an absolute path"),
        ("maxIndexNum", "1", "2 to 2147483647"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(key: str, text: str, accepted: str) -> None:
    with pytest.raises(IllegalConfiguration) as caught:
        StoreConfig.from_properties({"storePathRootDir": "/s", key: text})
    assert caught.value.key == key
    assert caught.value.accepted == accepted


def test_the_root_is_required() -> None:
    with pytest.raises(IllegalConfiguration, match="storePathRootDir"):
        StoreConfig.from_properties({})


def test_the_log_lies_in_the_root_unless_told() -> None:
    assert StoreConfig(store_path_root="/s").paths.commit_log_directories == ("/s/commitlog",)
    config = StoreConfig(store_path_root="/s", store_paths_read_only="/old, /older")
    assert config.read_only_directories == ("/old", "/older")


@pytest.mark.parametrize(("configured", "used"), [(1000, 1000), (1001, 1020), (19 + 20, 40)])
def test_queue_files_hold_whole_entries(configured: int, used: int) -> None:
    config = StoreConfig(store_path_root="/s", consume_queue_file_bytes=configured)
    assert config.consume_queue_bytes == used


@pytest.mark.parametrize(
    ("flush", "role", "in_use"),
    [
        ("ASYNC_FLUSH", "ASYNC_MASTER", True),
        ("ASYNC_FLUSH", "SYNC_MASTER", True),
        ("SYNC_FLUSH", "ASYNC_MASTER", False),
        ("ASYNC_FLUSH", "SLAVE", False),
    ],
)
def test_when_the_transient_pool_counts(flush: str, role: str, in_use: bool) -> None:
    properties = {
        "storePathRootDir": "/s",
        "transientStorePoolEnable": "true",
        "flushDiskType": flush,
        "brokerRole": role,
    }
    assert StoreConfig.from_properties(properties).transient_pool_in_use is in_use
