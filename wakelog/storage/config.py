"""The store's configuration: RocketMQ's MessageStoreConfig under names with units.

Each field names its key of 4.9.3, misspelt ones included
(`destroyMapedFileIntervalForcibly`); `broker/config_file.py` reads them. Defaults are 4.9.3's. Keys
about Java threads, locks and warm-up, which have no meaning here, and those of DLedger are left
out.

We differ on purpose in two points. An unusable value is an error that names its key, where 4.9.3
ignores it. Without `storePathCommitLog` the log lies in the store root, as in 5.x. In 4.9.3 it is
`~/store/commitlog` whatever the root is, which two brokers could share unnoticed.

Source: org.apache.rocketmq.store.config.MessageStoreConfig (4.9.3).
"""

from __future__ import annotations

import enum
import re
from functools import lru_cache
from posixpath import isabs

import msgspec
from msgspec import field

from wakelog.storage.errors import IllegalConfiguration
from wakelog.storage.paths import StorePaths

CONSUME_QUEUE_ENTRY_BYTES = 20
PAGE_BYTES = 4096
DELAY_LEVELS_MAX = 1_024  # each level is a queue; 4.9.3 ships 18
INT32_MAX = 0x7FFFFFFF  # every size and interval of MessageStoreConfig is a Java int
INT64_MAX = 0x7FFFFFFF_FFFFFFFF  # offsets in the log, and so its length

DEFAULT_DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"


class FlushDiskType(enum.Enum):
    """When a send is answered: after the write, or after the sync that covers it."""

    ASYNC_FLUSH = "ASYNC_FLUSH"
    SYNC_FLUSH = "SYNC_FLUSH"


class BrokerRole(enum.Enum):
    """Whether the broker appends, and whether a send waits for a replica."""

    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


class StoreConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Every setting of the store. Raises: IllegalConfiguration when values do not fit together."""

    # name=: the key of a configuration file or an admin request.
    store_path_root: str = field(name="storePathRootDir")
    store_path_commit_log: str | None = field(default=None, name="storePathCommitLog")
    store_paths_read_only: str | None = field(default=None, name="readOnlyCommitLogStorePaths")
    commit_log_file_bytes: int = field(default=1024 * 1024 * 1024, name="mappedFileSizeCommitLog")
    consume_queue_file_bytes: int = field(
        default=300_000 * CONSUME_QUEUE_ENTRY_BYTES, name="mappedFileSizeConsumeQueue"
    )
    enable_consume_queue_extension: bool = field(default=False, name="enableConsumeQueueExt")
    consume_queue_extension_file_bytes: int = field(
        default=48 * 1024 * 1024, name="mappedFileSizeConsumeQueueExt"
    )
    consume_queue_extension_bitmap_bits: int = field(default=64, name="bitMapLengthConsumeQueueExt")
    flush_interval_commit_log_ms: int = field(default=500, name="flushIntervalCommitLog")
    commit_interval_commit_log_ms: int = field(default=200, name="commitIntervalCommitLog")
    flush_interval_consume_queue_ms: int = field(default=1000, name="flushIntervalConsumeQueue")
    clean_resource_interval_ms: int = field(default=10_000, name="cleanResourceInterval")
    delete_commit_log_files_interval_ms: int = field(
        default=100, name="deleteCommitLogFilesInterval"
    )
    delete_consume_queue_files_interval_ms: int = field(
        default=100, name="deleteConsumeQueueFilesInterval"
    )
    destroy_mapped_file_interval_ms: int = field(
        default=120_000, name="destroyMapedFileIntervalForcibly"
    )
    redelete_hanged_file_interval_ms: int = field(
        default=120_000, name="redeleteHangedFileInterval"
    )
    delete_when: str = field(default="04", name="deleteWhen")
    disk_used_space_percent_max: int = field(default=75, name="diskMaxUsedSpaceRatio")
    file_reserved_hours: int = field(default=72, name="fileReservedTime")
    message_bytes_max: int = field(default=4 * 1024 * 1024, name="maxMessageSize")
    check_crc_on_recover: bool = field(default=True, name="checkCRCOnRecover")
    flush_commit_log_least_pages: int = field(default=4, name="flushCommitLogLeastPages")
    commit_commit_log_least_pages: int = field(default=4, name="commitCommitLogLeastPages")
    flush_consume_queue_least_pages: int = field(default=2, name="flushConsumeQueueLeastPages")
    flush_commit_log_thorough_interval_ms: int = field(
        default=10_000, name="flushCommitLogThoroughInterval"
    )
    commit_commit_log_thorough_interval_ms: int = field(
        default=200, name="commitCommitLogThoroughInterval"
    )
    flush_consume_queue_thorough_interval_ms: int = field(
        default=60_000, name="flushConsumeQueueThoroughInterval"
    )
    transfer_bytes_in_memory_max: int = field(
        default=256 * 1024, name="maxTransferBytesOnMessageInMemory"
    )
    transfer_count_in_memory_max: int = field(default=32, name="maxTransferCountOnMessageInMemory")
    transfer_bytes_in_disk_max: int = field(
        default=64 * 1024, name="maxTransferBytesOnMessageInDisk"
    )
    transfer_count_in_disk_max: int = field(default=8, name="maxTransferCountOnMessageInDisk")
    access_message_in_memory_percent_max: int = field(
        default=40, name="accessMessageInMemoryMaxRatio"
    )
    message_index_enable: bool = field(default=True, name="messageIndexEnable")
    message_index_safe: bool = field(default=False, name="messageIndexSafe")
    index_slot_count: int = field(default=5_000_000, name="maxHashSlotNum")
    index_entry_count: int = field(default=20_000_000, name="maxIndexNum")
    query_count_max: int = field(default=64, name="maxMsgsNumBatch")
    ha_listen_port: int = field(default=10912, name="haListenPort")
    ha_send_heartbeat_interval_ms: int = field(default=5_000, name="haSendHeartbeatInterval")
    ha_housekeeping_interval_ms: int = field(default=20_000, name="haHousekeepingInterval")
    ha_transfer_bytes_max: int = field(default=32 * 1024, name="haTransferBatchSize")
    ha_master_address: str | None = field(default=None, name="haMasterAddress")
    ha_slave_fall_behind_bytes_max: int = field(
        default=256 * 1024 * 1024, name="haSlaveFallbehindMax"
    )
    broker_role: BrokerRole = field(default=BrokerRole.ASYNC_MASTER, name="brokerRole")
    flush_disk_type: FlushDiskType = field(default=FlushDiskType.ASYNC_FLUSH, name="flushDiskType")
    sync_flush_timeout_ms: int = field(default=5_000, name="syncFlushTimeout")
    slave_timeout_ms: int = field(default=3_000, name="slaveTimeout")
    message_delay_level: str = field(default=DEFAULT_DELAY_LEVELS, name="messageDelayLevel")
    flush_delay_offset_interval_ms: int = field(default=10_000, name="flushDelayOffsetInterval")
    clean_file_forcibly_enable: bool = field(default=True, name="cleanFileForciblyEnable")
    offset_check_in_slave: bool = field(default=False, name="offsetCheckInSlave")
    duplication_enable: bool = field(default=False, name="duplicationEnable")
    disk_fall_recorded: bool = field(default=True, name="diskFallRecorded")
    page_cache_busy_timeout_ms: int = field(default=1_000, name="osPageCacheBusyTimeOutMills")
    default_query_count_max: int = field(default=32, name="defaultQueryMaxNum")
    transient_store_pool_enable: bool = field(default=False, name="transientStorePoolEnable")
    transient_store_pool_count: int = field(default=5, name="transientStorePoolSize")
    fast_fail_if_no_buffer: bool = field(default=False, name="fastFailIfNoBufferInStorePool")
    enable_schedule_message_stats: bool = field(default=True, name="enableScheduleMessageStats")
    enable_lmq: bool = field(default=False, name="enableLmq")
    enable_multi_dispatch: bool = field(default=False, name="enableMultiDispatch")
    lmq_consume_queue_count_max: int = field(default=20_000, name="maxLmqConsumeQueueNum")
    enable_schedule_async_deliver: bool = field(default=False, name="enableScheduleAsyncDeliver")
    schedule_async_deliver_pending_max: int = field(
        default=2_000, name="scheduleAsyncDeliverMaxPendingLimit"
    )
    schedule_async_deliver_resend_max: int = field(
        default=3, name="scheduleAsyncDeliverMaxResendNum2Blocked"
    )
    # Ours; 4.9.3 ignores keys that it does not know.
    file_reserved_bytes: int = field(default=0, name="fileReservedBytes")
    scrub_bytes_per_second: int = field(default=1 << 20, name="scrubBytesPerSecond")
    parquet_dispatcher: bool = field(default=False, name="parquetDispatcher")
    parquet_file_bytes: int = field(default=64 << 20, name="parquetFileBytes")
    parquet_file_age_ms: int = field(default=300_000, name="parquetFileAgeMs")
    # These two choose 4.9.3's behaviour where it loses more than it must.
    compat_skip_segment: bool = field(default=False, name="compat.skip_segment")
    compat_cut_at_damage: bool = field(default=False, name="compat.cut_at_damage")

    def __post_init__(self) -> None:
        """Check each range and the relations between values."""
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if not low <= value <= high:
                raise IllegalConfiguration(_key_of(name), value, f"{low} to {high}")
        for name in ("store_path_root", "store_path_commit_log", "store_paths_read_only"):
            for path in (getattr(self, name) or "").split(","):
                if path and not isabs(path.strip()):
                    raise IllegalConfiguration(_key_of(name), path, "an absolute path")
        if not self.store_path_root:
            raise IllegalConfiguration("storePathRootDir", "", "an absolute path")
        _delays_ms(self.message_delay_level)

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
    def transient_pool_in_use(self) -> bool:
        """The transient pool works only with asynchronous flush and not on a slave."""
        return self.transient_store_pool_enable and not self.synchronous_flush and self.appends


def _key_of(name: str) -> str:
    """Return 4.9.3's key of a field."""
    return next(one.encode_name for one in msgspec.structs.fields(StoreConfig) if one.name == name)


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
    ("flush_consume_queue_least_pages", 0, INT32_MAX),
    ("flush_commit_log_thorough_interval_ms", 0, INT32_MAX),
    ("commit_commit_log_thorough_interval_ms", 0, INT32_MAX),
    ("flush_consume_queue_thorough_interval_ms", 0, INT32_MAX),
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
    ("sync_flush_timeout_ms", 1, INT32_MAX),
    ("slave_timeout_ms", 1, INT32_MAX),
    ("transient_store_pool_count", 1, 1024),
    ("scrub_bytes_per_second", 0, INT32_MAX),
    # A Parquet file is gathered in memory. Retention waits an hour for a dispatcher without
    # progress, so a file must be written much sooner.
    ("parquet_file_bytes", 1024, 256 << 20),
    ("parquet_file_age_ms", 1, 1_800_000),
)

_DELAY_LEVEL = re.compile(r"([0-9]{1,12})([smhd])", re.ASCII)
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def _delays_ms(text: str) -> tuple[int, ...]:
    """Split at each blank, as 4.9.3: two blanks make an empty level, and neither broker starts."""
    matches = [_DELAY_LEVEL.fullmatch(level) for level in text.split(" ")]
    delays_ms = tuple(int(match[1]) * _UNIT_MS[match[2]] for match in matches if match is not None)
    if len(delays_ms) < len(matches):
        accepted = "numbers with s, m, h or d, separated by one blank each"
        raise IllegalConfiguration("messageDelayLevel", text, accepted)
    if len(delays_ms) > DELAY_LEVELS_MAX:
        raise IllegalConfiguration("messageDelayLevel", text, f"at most {DELAY_LEVELS_MAX} levels")
    return delays_ms


# Every recovery asks for them dozens of times; a process has a store or two.
_paths = lru_cache(maxsize=8)(StorePaths)
