"""The store's configuration: RocketMQ's MessageStoreConfig under names with units.

`_KEYS` gives each field its key of 4.9.3, misspelt ones included
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


# Our field -> 4.9.3's key, as in a configuration file or an admin request.
_KEYS = {
    "store_path_root": "storePathRootDir",
    "store_path_commit_log": "storePathCommitLog",
    "store_paths_read_only": "readOnlyCommitLogStorePaths",
    "commit_log_file_bytes": "mappedFileSizeCommitLog",
    "consume_queue_file_bytes": "mappedFileSizeConsumeQueue",
    "enable_consume_queue_extension": "enableConsumeQueueExt",
    "consume_queue_extension_file_bytes": "mappedFileSizeConsumeQueueExt",
    "consume_queue_extension_bitmap_bits": "bitMapLengthConsumeQueueExt",
    "flush_interval_commit_log_ms": "flushIntervalCommitLog",
    "commit_interval_commit_log_ms": "commitIntervalCommitLog",
    "flush_interval_consume_queue_ms": "flushIntervalConsumeQueue",
    "clean_resource_interval_ms": "cleanResourceInterval",
    "delete_commit_log_files_interval_ms": "deleteCommitLogFilesInterval",
    "delete_consume_queue_files_interval_ms": "deleteConsumeQueueFilesInterval",
    "destroy_mapped_file_interval_ms": "destroyMapedFileIntervalForcibly",
    "redelete_hanged_file_interval_ms": "redeleteHangedFileInterval",
    "delete_when": "deleteWhen",
    "disk_used_space_percent_max": "diskMaxUsedSpaceRatio",
    "file_reserved_hours": "fileReservedTime",
    "message_bytes_max": "maxMessageSize",
    "check_crc_on_recover": "checkCRCOnRecover",
    "flush_commit_log_least_pages": "flushCommitLogLeastPages",
    "commit_commit_log_least_pages": "commitCommitLogLeastPages",
    "flush_consume_queue_least_pages": "flushConsumeQueueLeastPages",
    "flush_commit_log_thorough_interval_ms": "flushCommitLogThoroughInterval",
    "commit_commit_log_thorough_interval_ms": "commitCommitLogThoroughInterval",
    "flush_consume_queue_thorough_interval_ms": "flushConsumeQueueThoroughInterval",
    "transfer_bytes_in_memory_max": "maxTransferBytesOnMessageInMemory",
    "transfer_count_in_memory_max": "maxTransferCountOnMessageInMemory",
    "transfer_bytes_in_disk_max": "maxTransferBytesOnMessageInDisk",
    "transfer_count_in_disk_max": "maxTransferCountOnMessageInDisk",
    "access_message_in_memory_percent_max": "accessMessageInMemoryMaxRatio",
    "message_index_enable": "messageIndexEnable",
    "message_index_safe": "messageIndexSafe",
    "index_slot_count": "maxHashSlotNum",
    "index_entry_count": "maxIndexNum",
    "query_count_max": "maxMsgsNumBatch",
    "ha_listen_port": "haListenPort",
    "ha_send_heartbeat_interval_ms": "haSendHeartbeatInterval",
    "ha_housekeeping_interval_ms": "haHousekeepingInterval",
    "ha_transfer_bytes_max": "haTransferBatchSize",
    "ha_master_address": "haMasterAddress",
    "ha_slave_fall_behind_bytes_max": "haSlaveFallbehindMax",
    "broker_role": "brokerRole",
    "flush_disk_type": "flushDiskType",
    "sync_flush_timeout_ms": "syncFlushTimeout",
    "slave_timeout_ms": "slaveTimeout",
    "message_delay_level": "messageDelayLevel",
    "flush_delay_offset_interval_ms": "flushDelayOffsetInterval",
    "clean_file_forcibly_enable": "cleanFileForciblyEnable",
    "offset_check_in_slave": "offsetCheckInSlave",
    "duplication_enable": "duplicationEnable",
    "disk_fall_recorded": "diskFallRecorded",
    "page_cache_busy_timeout_ms": "osPageCacheBusyTimeOutMills",
    "default_query_count_max": "defaultQueryMaxNum",
    "transient_store_pool_enable": "transientStorePoolEnable",
    "transient_store_pool_count": "transientStorePoolSize",
    "fast_fail_if_no_buffer": "fastFailIfNoBufferInStorePool",
    "enable_schedule_message_stats": "enableScheduleMessageStats",
    "enable_lmq": "enableLmq",
    "enable_multi_dispatch": "enableMultiDispatch",
    "lmq_consume_queue_count_max": "maxLmqConsumeQueueNum",
    "enable_schedule_async_deliver": "enableScheduleAsyncDeliver",
    "schedule_async_deliver_pending_max": "scheduleAsyncDeliverMaxPendingLimit",
    "schedule_async_deliver_resend_max": "scheduleAsyncDeliverMaxResendNum2Blocked",
    # Ours; 4.9.3 ignores keys that it does not know.
    "file_reserved_bytes": "fileReservedBytes",
    "scrub_bytes_per_second": "scrubBytesPerSecond",
    "parquet_dispatcher": "parquetDispatcher",
    "parquet_file_bytes": "parquetFileBytes",
    "parquet_file_age_ms": "parquetFileAgeMs",
    # Ours as well: they choose 4.9.3's behaviour where it loses more than it must.
    "compat_skip_segment": "compat.skip_segment",
    "compat_cut_at_damage": "compat.cut_at_damage",
}


class StoreConfig(msgspec.Struct, frozen=True, kw_only=True, rename=_KEYS):
    """Every setting of the store. Raises: IllegalConfiguration when values do not fit together."""

    store_path_root: str
    store_path_commit_log: str | None = None
    store_paths_read_only: str | None = None
    commit_log_file_bytes: int = 1024 * 1024 * 1024
    consume_queue_file_bytes: int = 300_000 * CONSUME_QUEUE_ENTRY_BYTES
    enable_consume_queue_extension: bool = False
    consume_queue_extension_file_bytes: int = 48 * 1024 * 1024
    consume_queue_extension_bitmap_bits: int = 64
    flush_interval_commit_log_ms: int = 500
    commit_interval_commit_log_ms: int = 200
    flush_interval_consume_queue_ms: int = 1000
    clean_resource_interval_ms: int = 10_000
    delete_commit_log_files_interval_ms: int = 100
    delete_consume_queue_files_interval_ms: int = 100
    destroy_mapped_file_interval_ms: int = 120_000
    redelete_hanged_file_interval_ms: int = 120_000
    delete_when: str = "04"
    disk_used_space_percent_max: int = 75
    file_reserved_hours: int = 72
    message_bytes_max: int = 4 * 1024 * 1024
    check_crc_on_recover: bool = True
    flush_commit_log_least_pages: int = 4
    commit_commit_log_least_pages: int = 4
    flush_consume_queue_least_pages: int = 2
    flush_commit_log_thorough_interval_ms: int = 10_000
    commit_commit_log_thorough_interval_ms: int = 200
    flush_consume_queue_thorough_interval_ms: int = 60_000
    transfer_bytes_in_memory_max: int = 256 * 1024
    transfer_count_in_memory_max: int = 32
    transfer_bytes_in_disk_max: int = 64 * 1024
    transfer_count_in_disk_max: int = 8
    access_message_in_memory_percent_max: int = 40
    message_index_enable: bool = True
    message_index_safe: bool = False
    index_slot_count: int = 5_000_000
    index_entry_count: int = 20_000_000
    query_count_max: int = 64
    ha_listen_port: int = 10912
    ha_send_heartbeat_interval_ms: int = 5_000
    ha_housekeeping_interval_ms: int = 20_000
    ha_transfer_bytes_max: int = 32 * 1024
    ha_master_address: str | None = None
    ha_slave_fall_behind_bytes_max: int = 256 * 1024 * 1024
    broker_role: BrokerRole = BrokerRole.ASYNC_MASTER
    flush_disk_type: FlushDiskType = FlushDiskType.ASYNC_FLUSH
    sync_flush_timeout_ms: int = 5_000
    slave_timeout_ms: int = 3_000
    message_delay_level: str = DEFAULT_DELAY_LEVELS
    flush_delay_offset_interval_ms: int = 10_000
    clean_file_forcibly_enable: bool = True
    offset_check_in_slave: bool = False
    duplication_enable: bool = False
    disk_fall_recorded: bool = True
    page_cache_busy_timeout_ms: int = 1_000
    default_query_count_max: int = 32
    transient_store_pool_enable: bool = False
    transient_store_pool_count: int = 5
    fast_fail_if_no_buffer: bool = False
    enable_schedule_message_stats: bool = True
    enable_lmq: bool = False
    enable_multi_dispatch: bool = False
    lmq_consume_queue_count_max: int = 20_000
    enable_schedule_async_deliver: bool = False
    schedule_async_deliver_pending_max: int = 2_000
    schedule_async_deliver_resend_max: int = 3
    file_reserved_bytes: int = 0
    scrub_bytes_per_second: int = 1 << 20
    parquet_dispatcher: bool = False
    parquet_file_bytes: int = 64 << 20
    parquet_file_age_ms: int = 300_000
    compat_skip_segment: bool = False
    compat_cut_at_damage: bool = False

    def __post_init__(self) -> None:
        """Check each range and the relations between values."""
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if not low <= value <= high:
                raise IllegalConfiguration(_KEYS[name], value, f"{low} to {high}")
        for name in ("store_path_root", "store_path_commit_log", "store_paths_read_only"):
            for path in (getattr(self, name) or "").split(","):
                if path and not isabs(path.strip()):
                    raise IllegalConfiguration(_KEYS[name], path, "an absolute path")
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
