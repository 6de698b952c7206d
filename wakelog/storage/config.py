"""The store's configuration: RocketMQ's MessageStoreConfig under names with units.

Each field names its key of 4.9.3, misspelt ones included
(`storePathRootDir`); `broker/config_file.py` reads them. Defaults are 4.9.3's. Keys about Java's
locks and warm-up and about replicas, which do nothing here, are in `KEYS_WITHOUT_EFFECT`.

We differ on purpose in two points. An unusable value is an error that names its key, where 4.9.3
ignores it. Without `storePathCommitLog` the log lies in the store root, as in 5.x. In 4.9.3 it is
`~/store/commitlog` whatever the root is, which two brokers could share unnoticed.

Source: org.apache.rocketmq.store.config.MessageStoreConfig (4.9.3).
"""

import enum
import re
from collections.abc import Callable
from functools import lru_cache
from posixpath import isabs
from typing import TypeVar

import msgspec
from msgspec import field
from msgspec.structs import fields

from wakelog.protocol.delay_levels import DEFAULT_DELAY_LEVELS, read_delay_levels
from wakelog.storage.errors import IllegalConfiguration
from wakelog.storage.paths import StorePaths
from wakelog.storage.settings_text import Live, keys_without_effect

CONSUME_QUEUE_ENTRY_BYTES = 20
PAGE_BYTES = 4096
DELAY_LEVELS_MAX = 1_024  # each level is a queue; 4.9.3 ships 18
INT32_MAX = 0x7FFFFFFF  # every size and interval of MessageStoreConfig is a Java int
INT64_MAX = 0x7FFFFFFF_FFFFFFFF  # offsets in the log, and so its length

T = TypeVar("T")


class FlushDiskType(enum.Enum):
    """When a send is answered: after the write, or after the sync that covers it."""

    ASYNC_FLUSH = "ASYNC_FLUSH"
    SYNC_FLUSH = "SYNC_FLUSH"


class BrokerRole(enum.Enum):
    """Whether the broker appends, and whether a send waits for a replica."""

    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


def _key(name: str, default: T) -> T:
    """Return a field with its key in a configuration file or an admin request."""
    one: T = field(default=default, name=name)
    return one


class StoreConfig(msgspec.Struct, kw_only=True):
    """Every setting of the store. Raises: IllegalConfiguration when values do not fit together.

    Only `live_settings.py` assigns to fields, and only to those that are `Live`.
    """

    store_path_root: str = field(name="storePathRootDir")
    store_path_commit_log: str | None = _key("storePathCommitLog", None)
    store_paths_read_only: str | None = _key("readOnlyCommitLogStorePaths", None)
    commit_log_file_bytes: int = _key("mappedFileSizeCommitLog", 1024 * 1024 * 1024)
    consume_queue_file_bytes: int = _key(
        "mappedFileSizeConsumeQueue", 300_000 * CONSUME_QUEUE_ENTRY_BYTES
    )
    enable_consume_queue_extension: bool = _key("enableConsumeQueueExt", False)
    consume_queue_extension_file_bytes: int = _key(
        "mappedFileSizeConsumeQueueExt", 48 * 1024 * 1024
    )
    flush_interval_commit_log_ms: Live[int] = _key("flushIntervalCommitLog", 500)
    commit_interval_commit_log_ms: Live[int] = _key("commitIntervalCommitLog", 200)
    flush_interval_consume_queue_ms: Live[int] = _key("flushIntervalConsumeQueue", 1000)
    clean_resource_interval_ms: Live[int] = _key("cleanResourceInterval", 10_000)
    delete_commit_log_files_interval_ms: Live[int] = _key("deleteCommitLogFilesInterval", 100)
    delete_when: Live[str] = _key("deleteWhen", "04")
    disk_used_space_percent_max: Live[int] = _key("diskMaxUsedSpaceRatio", 75)
    file_reserved_hours: Live[int] = _key("fileReservedTime", 72)
    message_bytes_max: Live[int] = _key("maxMessageSize", 4 * 1024 * 1024)
    check_crc_on_recover: bool = _key("checkCRCOnRecover", True)
    flush_commit_log_least_pages: Live[int] = _key("flushCommitLogLeastPages", 4)
    commit_commit_log_least_pages: Live[int] = _key("commitCommitLogLeastPages", 4)
    flush_commit_log_thorough_interval_ms: Live[int] = _key(
        "flushCommitLogThoroughInterval", 10_000
    )
    commit_commit_log_thorough_interval_ms: Live[int] = _key("commitCommitLogThoroughInterval", 200)
    transfer_bytes_in_memory_max: Live[int] = _key("maxTransferBytesOnMessageInMemory", 256 * 1024)
    transfer_count_in_memory_max: Live[int] = _key("maxTransferCountOnMessageInMemory", 32)
    transfer_bytes_in_disk_max: Live[int] = _key("maxTransferBytesOnMessageInDisk", 64 * 1024)
    transfer_count_in_disk_max: Live[int] = _key("maxTransferCountOnMessageInDisk", 8)
    access_message_in_memory_percent_max: Live[int] = _key("accessMessageInMemoryMaxRatio", 40)
    message_index_enable: Live[bool] = _key("messageIndexEnable", True)
    message_index_safe: bool = _key("messageIndexSafe", False)
    index_slot_count: int = _key("maxHashSlotNum", 5_000_000)
    index_entry_count: int = _key("maxIndexNum", 20_000_000)
    query_count_max: Live[int] = _key("maxMsgsNumBatch", 64)
    ha_listen_port: int = _key("haListenPort", 10912)
    ha_send_heartbeat_interval_ms: int = _key("haSendHeartbeatInterval", 5_000)
    ha_housekeeping_interval_ms: int = _key("haHousekeepingInterval", 20_000)
    ha_transfer_batch_bytes: int = _key("haTransferBatchSize", 32 * 1024)
    ha_slave_fallbehind_bytes_max: Live[int] = _key("haSlaveFallbehindMax", 256 * 1024 * 1024)
    slave_timeout_ms: Live[int] = _key("slaveTimeout", 3_000)
    ha_master_address: str | None = _key("haMasterAddress", None)
    broker_role: BrokerRole = _key("brokerRole", BrokerRole.ASYNC_MASTER)
    flush_disk_type: FlushDiskType = _key("flushDiskType", FlushDiskType.ASYNC_FLUSH)
    sync_flush_timeout_ms: Live[int] = _key("syncFlushTimeout", 5_000)
    message_delay_level: str = _key("messageDelayLevel", DEFAULT_DELAY_LEVELS)
    flush_delay_offset_interval_ms: Live[int] = _key("flushDelayOffsetInterval", 10_000)
    clean_file_forcibly_enable: Live[bool] = _key("cleanFileForciblyEnable", True)
    offset_check_in_slave: Live[bool] = _key("offsetCheckInSlave", False)
    duplication_enable: bool = _key("duplicationEnable", False)
    default_query_count_max: Live[int] = _key("defaultQueryMaxNum", 32)
    transient_store_pool_enable: bool = _key("transientStorePoolEnable", False)
    transient_store_pool_count: int = _key("transientStorePoolSize", 5)
    enable_schedule_message_stats: Live[bool] = _key("enableScheduleMessageStats", True)
    enable_lmq: bool = _key("enableLmq", False)
    enable_multi_dispatch: bool = _key("enableMultiDispatch", False)
    lmq_consume_queue_count_max: int = _key("maxLmqConsumeQueueNum", 20_000)
    # Ours; 4.9.3 ignores keys that it does not know.
    replication_enable: bool = _key("replicationEnable", False)
    ha_ack_durable: bool = _key("haAckDurable", True)
    min_in_sync_replicas: int = _key("minInSyncReplicas", 1)
    file_reserved_bytes: Live[int] = _key("fileReservedBytes", 0)
    scrub_bytes_per_second: int = _key("scrubBytesPerSecond", 1 << 20)
    parquet_dispatcher: bool = _key("parquetDispatcher", False)
    parquet_file_bytes: int = _key("parquetFileBytes", 64 << 20)
    parquet_file_age_ms: int = _key("parquetFileAgeMs", 300_000)
    # These two choose 4.9.3's behaviour where it loses more than it must.
    compat_skip_segment: bool = _key("compat.skip_segment", False)
    compat_cut_at_damage: bool = _key("compat.cut_at_damage", False)

    def __post_init__(self) -> None:
        """Judge each value. Raises: IllegalConfiguration."""
        for each in fields(self):
            check_value(each.encode_name, getattr(self, each.name))

    @property
    def deletion_hours(self) -> frozenset[int]:
        """The hours of the day in which expired segments go, from 0 to 23."""
        return _hours(self.delete_when)

    @property
    def delays_ms(self) -> tuple[int, ...]:
        """The delays of `messageDelayLevel`: element i is that of level i + 1."""
        return _delays_ms(self.message_delay_level)

    @property
    def paths(self) -> StorePaths:
        """The names of this store's files."""
        return _paths(self.store_path_root, self.store_path_commit_log)

    @property
    def read_only_directories(self) -> tuple[str, ...]:
        """Commit log directories that are read and never get a new segment."""
        listed = (self.store_paths_read_only or "").split(",")
        return tuple(sorted(part.strip() for part in listed if part.strip()))

    @property
    def consume_queue_bytes(self) -> int:
        """A consume-queue file's length: as configured, up to the next whole entry."""
        entries = -(-self.consume_queue_file_bytes // CONSUME_QUEUE_ENTRY_BYTES)
        return entries * CONSUME_QUEUE_ENTRY_BYTES

    @property
    def synchronous_flush(self) -> bool:
        """Whether a send waits for the sync that covers it."""
        return self.flush_disk_type is FlushDiskType.SYNC_FLUSH

    @property
    def appends(self) -> bool:
        """Whether this broker writes the log itself; a slave only copies."""
        return self.broker_role is not BrokerRole.SLAVE

    @property
    def ships(self) -> bool:
        """Whether this broker sends its log to slaves."""
        return self.broker_role is BrokerRole.SYNC_MASTER or (
            self.replication_enable and self.appends
        )

    @property
    def transient_pool_in_use(self) -> bool:
        """The transient pool works only with asynchronous flush and not on a slave."""
        return self.transient_store_pool_enable and not self.synchronous_flush and self.appends


_KEYS = dict(zip(StoreConfig.__struct_fields__, StoreConfig.__struct_encode_fields__, strict=True))


def check_value(key: str, value: object) -> None:
    """Refuse a value that no store can work with, at a start and while the broker runs.

    Raises: IllegalConfiguration.
    """
    if key in RANGES and isinstance(value, int):
        low, high = RANGES[key]
        if not low <= value <= high:
            raise IllegalConfiguration(key, value, f"{low} to {high}")
    if isinstance(value, str):
        SETTING_CHECKS[key](value)


# field, lowest and highest value that can work. A size of 0 would make every append roll; an
# interval of 0 would spin. Percentages follow 4.9.3, which clamps the disk's to 10..95.
_RANGES: tuple[tuple[str, int, int], ...] = (
    ("commit_log_file_bytes", 1024, INT32_MAX),
    ("consume_queue_file_bytes", CONSUME_QUEUE_ENTRY_BYTES, INT32_MAX),
    ("consume_queue_extension_file_bytes", 1, INT32_MAX),
    ("flush_interval_commit_log_ms", 1, INT32_MAX),
    ("commit_interval_commit_log_ms", 1, INT32_MAX),
    ("flush_interval_consume_queue_ms", 1, INT32_MAX),
    ("flush_commit_log_least_pages", 0, INT32_MAX),
    ("commit_commit_log_least_pages", 0, INT32_MAX),
    ("flush_commit_log_thorough_interval_ms", 0, INT32_MAX),
    ("commit_commit_log_thorough_interval_ms", 0, INT32_MAX),
    ("clean_resource_interval_ms", 1, INT32_MAX),
    ("delete_commit_log_files_interval_ms", 0, INT32_MAX),
    ("flush_delay_offset_interval_ms", 1, INT32_MAX),
    ("default_query_count_max", 1, INT32_MAX),
    ("message_bytes_max", 1, INT32_MAX),
    ("file_reserved_hours", 0, INT32_MAX),
    ("file_reserved_bytes", 0, INT64_MAX),
    ("disk_used_space_percent_max", 0, 100),
    ("access_message_in_memory_percent_max", 0, 100),
    ("transfer_bytes_in_memory_max", 1, INT32_MAX),
    ("transfer_count_in_memory_max", 1, INT32_MAX),
    ("transfer_bytes_in_disk_max", 1, INT32_MAX),
    ("transfer_count_in_disk_max", 1, INT32_MAX),
    ("index_slot_count", 1, INT32_MAX),
    ("index_entry_count", 2, INT32_MAX),
    ("query_count_max", 1, INT32_MAX),
    ("ha_listen_port", 0, 65535),
    ("ha_send_heartbeat_interval_ms", 1, INT32_MAX),
    ("ha_housekeeping_interval_ms", 1, INT32_MAX),
    ("ha_transfer_batch_bytes", 1, INT32_MAX),
    ("ha_slave_fallbehind_bytes_max", 1, INT32_MAX),
    ("slave_timeout_ms", 1, INT32_MAX),
    ("lmq_consume_queue_count_max", 0, INT32_MAX),
    ("min_in_sync_replicas", 1, 16),
    ("sync_flush_timeout_ms", 1, INT32_MAX),
    ("transient_store_pool_count", 1, 1024),
    ("scrub_bytes_per_second", 0, INT32_MAX),
    # A Parquet file is gathered in memory. Retention waits an hour for a dispatcher without
    # progress, so a file must be written much sooner.
    ("parquet_file_bytes", 1024, 256 << 20),
    ("parquet_file_age_ms", 1, 1_800_000),
)

RANGES = {_KEYS[name]: (low, high) for name, low, high in _RANGES}
"""Ranges of numbers by key."""

_WITHOUT_EFFECT = {
    "worked out from maxErrorRateOfBloomFilter and expectConsumerNumUseFilter, as in 4.9.3": """
        bitMapLengthConsumeQueueExt=112
    """,
    "a log with replicas in it has another format": """
        dLegerGroup dLegerPeers dLegerSelfId enableBatchPush isEnableBatchPush=false
        preferredLeaderId
    """,
    "no file is mapped": """
        destroyMapedFileIntervalForcibly=120000 flushLeastPagesWhenWarmMapedFile=4096
        redeleteHangedFileInterval=120000 warmMapedFileEnable=false
    """,
    "one loop appends, so there is no lock and no page cache to wait for": """
        debugLockEnable=false osPageCacheBusyTimeOutMills=1000 useReentrantLockWhenPutMessage=true
    """,
    "a flush begins when there is something to flush": "flushCommitLogTimed=true",
    "queue files are synced together, each flushIntervalConsumeQueue": """
        flushConsumeQueueLeastPages=2 flushConsumeQueueThoroughInterval=60000
    """,
    "the files of a queue are removed in one step": "deleteConsumeQueueFilesInterval=100",
    "a pool that is full waits for its copy": "fastFailIfNoBufferInStorePool=false",
    "4.9.3 reads it nowhere either": "putMsgIndexHightWater=600000",
    "delayed messages are delivered in batches": """
        enableScheduleAsyncDeliver=false scheduleAsyncDeliverMaxPendingLimit=2000
        scheduleAsyncDeliverMaxResendNum2Blocked=3
    """,
    "how far readers are behind the log's end is in the metrics": "diskFallRecorded=true",
}

KEYS_WITHOUT_EFFECT = keys_without_effect(_WITHOUT_EFFECT)
"""Keys of MessageStoreConfig that are accepted and do nothing.

To obey one, take it out here and make it a field of StoreConfig.
"""

KEYS_REFUSED_WHEN_TRUE = {
    "enableDLegerCommitLog": "a replicated commit log has another format",
}
"""Keys of MessageStoreConfig for features that are missing; why a broker does not start."""

WAKELOG_KEYS = frozenset(
    {
        "compat.cut_at_damage",
        "compat.skip_segment",
        "fileReservedBytes",
        "haAckDurable",
        "parquetDispatcher",
        "parquetFileAgeMs",
        "parquetFileBytes",
        "minInSyncReplicas",
        "replicationEnable",
        "requestLimitFactor",
        "scrubBytesPerSecond",
        "tableLimitFactor",
    }
)
"""Keys that only wakelog has, BrokerConfig's two included; 4.9.3 ignores what it does not know."""


def _delays_ms(text: str) -> tuple[int, ...]:
    try:
        delays_ms = read_delay_levels(text)
    except ValueError as error:
        raise IllegalConfiguration("messageDelayLevel", text, str(error)) from None
    if len(delays_ms) > DELAY_LEVELS_MAX:
        raise IllegalConfiguration("messageDelayLevel", text, f"at most {DELAY_LEVELS_MAX} levels")
    return delays_ms


_HOUR = re.compile(r"[01]?[0-9]|2[0-3]", re.ASCII)


@lru_cache(maxsize=8)  # Retention asks for them at each run
def _hours(text: str) -> frozenset[int]:
    hours = [part.strip() for part in text.split(";")]
    if hours[-1] == "":
        hours.pop()  # as String.split of Java does
    if not hours or not all(map(_HOUR.fullmatch, hours)):
        accepted = 'hours from 0 to 23, such as "04" or "04;16"'
        raise IllegalConfiguration("deleteWhen", text, accepted)
    return frozenset(map(int, hours))


def _check_address(text: str) -> None:
    host, _, port = text.rpartition(":")
    if not (host and port.isdecimal() and 0 < int(port) <= 0xFFFF):
        raise IllegalConfiguration("haMasterAddress", text, "HOST:PORT")


def _check_root(text: str) -> None:
    if not isabs(text):
        raise IllegalConfiguration("storePathRootDir", text, "an absolute path")


def _path_check(key: str) -> Callable[[str], None]:
    def check_paths(text: str) -> None:
        for path in text.split(","):
            if path and not isabs(path.strip()):
                raise IllegalConfiguration(key, path, "an absolute path")

    return check_paths


SETTING_CHECKS: dict[str, Callable[[str], object]] = {
    "deleteWhen": _hours,
    "haMasterAddress": _check_address,
    "messageDelayLevel": _delays_ms,
    "readOnlyCommitLogStorePaths": _path_check("readOnlyCommitLogStorePaths"),
    "storePathCommitLog": _path_check("storePathCommitLog"),
    "storePathRootDir": _check_root,
}
"""By key, what refuses a text that cannot be used; every text of StoreConfig has one."""

# Every recovery asks for them dozens of times; a process has a store or two.
_paths = lru_cache(maxsize=8)(StorePaths)
