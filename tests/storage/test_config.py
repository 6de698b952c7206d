"""RocketMQ's keys and defaults, and the errors for unusable values."""

import pytest
from msgspec.structs import fields

from wakelog.storage.config import RANGES, SETTING_CHECKS, BrokerRole, StoreConfig, check_value
from wakelog.storage.errors import IllegalConfiguration
from wakelog.storage.settings_text import plain_type, read_settings, settings_of

# Defaults of 4.9.3's MessageStoreConfig, as its own broker prints them with -p.
DEFAULTS = """
mappedFileSizeCommitLog=1073741824 mappedFileSizeConsumeQueue=6000000 enableConsumeQueueExt=false
mappedFileSizeConsumeQueueExt=50331648 flushIntervalCommitLog=500 commitIntervalCommitLog=200
flushIntervalConsumeQueue=1000 cleanResourceInterval=10000 deleteCommitLogFilesInterval=100
deleteWhen=04 diskMaxUsedSpaceRatio=75 fileReservedTime=72 maxMessageSize=4194304
checkCRCOnRecover=true flushCommitLogLeastPages=4 commitCommitLogLeastPages=4
flushCommitLogThoroughInterval=10000 commitCommitLogThoroughInterval=200
maxTransferBytesOnMessageInMemory=262144 maxTransferCountOnMessageInMemory=32
maxTransferBytesOnMessageInDisk=65536 maxTransferCountOnMessageInDisk=8
accessMessageInMemoryMaxRatio=40 messageIndexEnable=true maxHashSlotNum=5000000
maxIndexNum=20000000 maxMsgsNumBatch=64 messageIndexSafe=false haListenPort=10912
haSendHeartbeatInterval=5000 haHousekeepingInterval=20000 haTransferBatchSize=32768
haSlaveFallbehindMax=268435456 slaveTimeout=3000
brokerRole=ASYNC_MASTER flushDiskType=ASYNC_FLUSH syncFlushTimeout=5000
flushDelayOffsetInterval=10000 cleanFileForciblyEnable=true offsetCheckInSlave=false
duplicationEnable=false defaultQueryMaxNum=32 transientStorePoolEnable=false
transientStorePoolSize=5 enableScheduleMessageStats=true enableLmq=false
enableMultiDispatch=false maxLmqConsumeQueueNum=20000
"""


def test_defaults_are_those_of_rocketmq() -> None:
    expected = dict(pair.split("=") for pair in DEFAULTS.split())
    expected["storePathRootDir"] = "/s"
    # Not RocketMQ's.
    expected["scrubBytesPerSecond"] = str(1 << 20)
    expected["compat.skip_segment"] = expected["compat.cut_at_damage"] = "false"
    expected["fileReservedBytes"] = "0"
    expected["minInSyncReplicas"], expected["haAckDurable"] = "1", "true"
    expected["parquetDispatcher"] = expected["replicationEnable"] = "false"
    expected["parquetFileBytes"], expected["parquetFileAgeMs"] = str(64 << 20), "300000"
    expected["messageDelayLevel"] = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    assert settings_of(StoreConfig(store_path_root="/s")) == expected


def test_every_field_has_a_key_of_its_own() -> None:
    keys = [field.encode_name for field in fields(StoreConfig)]
    assert len(set(keys)) == len(keys)
    keys_of_rocketmq = [key for key in keys if not key.startswith("compat.")]
    assert all("_" not in key for key in keys_of_rocketmq)


@pytest.mark.parametrize(
    ("key", "text", "accepted"),
    [
        ("flushDiskType", "SOMETIMES", "ASYNC_FLUSH or SYNC_FLUSH"),
        ("brokerRole", "master", "ASYNC_MASTER or SYNC_MASTER or SLAVE"),
        ("messageIndexEnable", "yes", "true or false"),
        ("maxMessageSize", "4M", "a whole number"),
        ("maxMessageSize", "0", "1 to 2147483647"),
        ("mappedFileSizeCommitLog", "3000000000", "1024 to 2147483647"),
        ("flushIntervalCommitLog", "", "a whole number"),
        ("storePathRootDir", "store", "an absolute path"),
        ("storePathRootDir", "", "an absolute path"),
        ("storePathCommitLog", "/a,b", "an absolute path"),
        ("maxIndexNum", "1", "2 to 2147483647"),
        ("deleteWhen", "04,16", 'hours from 0 to 23, such as "04" or "04;16"'),
        ("deleteWhen", "24", 'hours from 0 to 23, such as "04" or "04;16"'),
        ("deleteWhen", "", 'hours from 0 to 23, such as "04" or "04;16"'),
        ("haMasterAddress", "elsewhere", "HOST:PORT"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(key: str, text: str, accepted: str) -> None:
    with pytest.raises(IllegalConfiguration) as caught:
        read_settings(StoreConfig, {"storePathRootDir": "/s", key: text})
    assert caught.value.key == key
    assert caught.value.accepted == accepted


def test_every_text_has_a_check_and_every_number_a_range() -> None:
    """What only a service would judge is judged at the start, and as the broker runs."""
    kinds = {field.encode_name: str(field.type) for field in fields(StoreConfig)}
    assert {key for key, kind in kinds.items() if "str" in kind} == set(SETTING_CHECKS)
    for field in fields(StoreConfig):
        if plain_type(field.type) is int:
            with pytest.raises(IllegalConfiguration):
                check_value(field.encode_name, -1)


@pytest.mark.parametrize(("key", "ends"), RANGES.items(), ids=str)
def test_a_range_has_both_of_its_ends_and_nothing_beyond(key: str, ends: tuple[int, int]) -> None:
    low, high = ends
    for within in ends:
        check_value(key, within)
    for beyond in (low - 1, high + 1):
        with pytest.raises(IllegalConfiguration):
            check_value(key, beyond)


def test_ports_and_levels_have_exact_limits() -> None:
    for key, last, beyond in (
        ("haMasterAddress", "h:1", "h:0"),
        ("haMasterAddress", "h:65535", "h:65536"),
        ("messageDelayLevel", " ".join(["1s"] * 1_024), " ".join(["1s"] * 1_025)),
    ):
        check_value(key, last)
        with pytest.raises(IllegalConfiguration):
            check_value(key, beyond)


def test_hours_are_read() -> None:
    def hours(text: str) -> set[int]:
        return set(StoreConfig(store_path_root="/s", delete_when=text).deletion_hours)

    assert hours("04") == {4}
    assert hours("04; 16;") == {4, 16}
    assert hours("0;9;23") == {0, 9, 23}


def test_files_of_extension_units_may_have_any_size() -> None:
    """4.9.3 has no bound, and a real store with such a size must open."""
    key = "mappedFileSizeConsumeQueueExt"
    config = read_settings(StoreConfig, {"storePathRootDir": "/s", key: "64"})
    assert config.consume_queue_extension_file_bytes == 64
    with pytest.raises(IllegalConfiguration):
        read_settings(StoreConfig, {"storePathRootDir": "/s", key: "0"})


def test_the_log_lies_in_the_root_unless_configured() -> None:
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
def test_when_the_transient_pool_is_in_use(flush: str, role: str, in_use: bool) -> None:
    properties = {
        "storePathRootDir": "/s",
        "transientStorePoolEnable": "true",
        "flushDiskType": flush,
        "brokerRole": role,
    }
    assert read_settings(StoreConfig, properties).transient_pool_in_use is in_use


def test_delay_levels_are_read_from_their_key() -> None:
    config = StoreConfig(store_path_root="/s", message_delay_level="1s 5m 2h 1d")
    assert config.delays_ms == (1000, 300_000, 7_200_000, 86_400_000)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "s",
        "1x",
        "1.5s",
        "-1s",
        "1s," * 3,
        "1s  5s",
        " 1s",
        "1s\t5s",
        " ".join(["1s"] * 2_000),
    ],
)
def test_unreadable_delay_levels_are_refused_at_start(text: str) -> None:
    # 4.9.3 splits at each blank and does not start with an empty level either.
    with pytest.raises(IllegalConfiguration, match="messageDelayLevel"):
        StoreConfig(store_path_root="/s", message_delay_level=text)


@pytest.mark.parametrize(
    ("role", "enable", "expected"),
    [
        (BrokerRole.ASYNC_MASTER, False, False),
        (BrokerRole.ASYNC_MASTER, True, True),
        (BrokerRole.SYNC_MASTER, False, True),
        (BrokerRole.SLAVE, True, False),
    ],
)
def test_replication_is_off_by_default(role: BrokerRole, *, enable: bool, expected: bool) -> None:
    config = StoreConfig(store_path_root="/s", broker_role=role, replication_enable=enable)
    assert config.ships is expected
