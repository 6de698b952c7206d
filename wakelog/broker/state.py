"""BrokerState: what the processors of one broker share.

The tables, the store, the configuration and the list of instructions. A processor is a function of
a state and a Request, and keeps nothing itself. Only ``broker.Broker`` makes a state.

Source: org.apache.rocketmq.broker.BrokerController's fields (4.9.3).
"""

from collections.abc import Callable
from random import Random

from wakelog.broker.access.control import AccessControl
from wakelog.broker.broker_stats import BrokerStats
from wakelog.broker.config_file import BrokerSettings, bloom_filter, live_settings
from wakelog.broker.consumer_notices import ConsumerNotices
from wakelog.broker.consumer_offsets import ConsumerOffsets
from wakelog.broker.decision import (
    Appender,
    AwaitFlush,
    Instruction,
    Persist,
    Push,
    WriteLine,
)
from wakelog.broker.delayed_delivery import DelayedDelivery
from wakelog.broker.error_response import LimitReached
from wakelog.broker.filter_servers import FilterServers
from wakelog.broker.heartbeats import HeartbeatsUnderWay
from wakelog.broker.held_requests import HeldRequests
from wakelog.broker.lock_table import LockTable
from wakelog.broker.membership import Consumers, GroupChange, GroupClients
from wakelog.broker.names import FAQ_HINT
from wakelog.broker.replication.master import MasterAddress
from wakelog.broker.replication.replicas import Replicas
from wakelog.broker.slow_readers import SlowReaders
from wakelog.broker.store_stats import RuntimeMeasures, StoreStats
from wakelog.broker.subscription_groups import SubscriptionGroups
from wakelog.broker.table_limits import DEFAULT_LIMITS
from wakelog.broker.topics import PlainQueues, Topics
from wakelog.broker.transactions import OpenCheck, TransactionCounts
from wakelog.filter.consumer_filters import ConsumerFilters
from wakelog.network.peer import OPAQUE_MASK
from wakelog.protocol.bodies import DataVersion, SubscriptionGroupConfig
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, make_request
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.java import parse_boolean
from wakelog.protocol.send_run import SendRun
from wakelog.storage.config import BrokerRole, FlushDiskType
from wakelog.storage.log.append import StoredRun
from wakelog.storage.message_store import MessageStore
from wakelog.storage.read.read_ahead_windows import ReadAheadWindows

SLAVE_COMMITS_MAX = 100_000
"""Offsets of queues that a slave keeps for its master, some 30 MB."""


class BrokerState:
    """Everything that a processor may read or change.

    puts_may_wait: whether the response to a put may have to wait.
    awaits_confirmed: whether this broker is the master of a group; then it is a SYNC_MASTER.
    """

    def __init__(
        self, settings: BrokerSettings, store: MessageStore, random: Random, now_ms: int
    ) -> None:
        lmq = settings.store.enable_lmq
        limits = self.limits = DEFAULT_LIMITS.multiplied(settings.broker.table_limit_factor)
        self.settings = settings
        self.live = live_settings(settings)
        self.config = settings.broker
        self.store_config = settings.store
        self.store = store
        self.random = random
        self.instructions: list[Instruction] = []
        self.access: AccessControl | None = None
        self.topics = Topics(self.config, self.instructions, now_ms, lmq=lmq, limits=limits)
        self.plain_queues = PlainQueues(self.topics)
        self.groups = SubscriptionGroups(
            self.config, self.instructions, now_ms, lmq=lmq, limits=limits
        )
        self.offsets = ConsumerOffsets(lmq=lmq, limits=limits)
        self.consumers = Consumers(limits)
        self.notices = ConsumerNotices(self.consumers.channel_ids)
        self.filters = ConsumerFilters(
            bloom_filter(self.config),
            now_ms,
            dead_ms_max=self.config.filter_data_clean_time_span,
            filters_max=limits.filters,
            characters_max=limits.filter_characters,
        )
        self.producers = GroupClients(limits)
        self.heartbeats = HeartbeatsUnderWay()
        self.filter_servers = FilterServers()
        self.locks = LockTable(limits)
        self.slow_readers = SlowReaders()
        self.held = HeldRequests()
        self.read_ahead_windows = ReadAheadWindows()
        self.delay_level_max = len(self.store_config.delays_ms)
        self.delayed = DelayedDelivery()
        self.traffic = BrokerStats(
            self.config.broker_cluster_name, by_queue=self.config.enable_detail_stat, lmq=lmq
        )
        self.store_stats = StoreStats(now_ms)
        self.measure: Callable[[], RuntimeMeasures] = RuntimeMeasures
        self.transactions = TransactionCounts()
        self.open_check = OpenCheck()
        self.master: MasterAddress | None = None
        self.election_epoch: int | None = None
        self.member_values: Callable[[], dict[str, str]] = dict
        self.slave_commits: dict[tuple[str, str, int], int] = {}
        self.replicas = Replicas(self.store_config.ha_slave_fallbehind_bytes_max)
        self.config_version = DataVersion(now_ms, 0)
        self.store_host = (self.config.broker_ip1, self.config.listen_port)
        role, flush = self.store_config.broker_role, self.store_config.flush_disk_type
        self.is_slave = role is BrokerRole.SLAVE
        self.is_sync_master = role is BrokerRole.SYNC_MASTER
        self.is_sync_flush = flush is FlushDiskType.SYNC_FLUSH
        self.puts_may_wait = self.is_sync_master or self.is_sync_flush
        self.awaits_confirmed = False
        self.is_draining = False
        self.uncounted_runs: list[tuple[SendRun, StoredRun]] = []
        self._push_count = 0

    def find_group(self, group: str, now_ms: int) -> SubscriptionGroupConfig:
        """Return a group, created if that is allowed.

        Raises: RemoteProtocolError with code 26 and 4.9.3's remark of a send.
        """
        found = self.groups.find(group, now_ms)
        if found is None:
            remark = f"subscription group not exist, {group} {FAQ_HINT}"
            raise RemoteProtocolError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        return found

    def notify_consumers(
        self,
        change: GroupChange | None,
        group: SubscriptionGroupConfig | None = None,
        *,
        now_ms: int,
    ) -> None:
        """Push code 40 to the members of a changed group, soon: they rebalance its queues."""
        if change is None or not self.config.notify_consumer_ids_changed_enable:
            return
        if group is not None and not group.notify_consumer_ids_changed_enable:
            return
        self.notices.note(change.group, now_ms)
        self.send_notices(now_ms)

    def send_notices(self, now_ms: int) -> None:
        """Push the notices that may leave now."""
        for group, channel_id in self.notices.take(now_ms):
            fields = {"consumerGroup": group}
            self.push(channel_id, RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, fields)

    def when_kept(
        self,
        response: RemotingCommand,
        physical_offset_end: int,
        now_ms: int,
        wait: str | None,
        *,
        keeps_code: bool = False,
    ) -> RemotingCommand | AwaitFlush:
        """Let the response to a put wait for the disk and for a slave, as this broker is set.

        wait: the property WAIT of the message.
        keeps_code: a wait in vain leaves the code as it is, as in 4.9.3 after all puts but a send.
            In a group it still fails if a replica is late, however far that is behind: the next
            master may lack the message.
        """
        if not self.puts_may_wait or (wait is not None and not parse_boolean(wait)):
            return response
        failure: int = ResponseCode.FLUSH_DISK_TIMEOUT
        replica_failure: int = ResponseCode.FLUSH_SLAVE_TIMEOUT
        needs_replica = self.is_sync_master and self.replicas.can_take(physical_offset_end)
        if keeps_code:
            failure = response.code
            if self.awaits_confirmed:
                needs_replica = True
            else:
                replica_failure = response.code
        elif self.is_sync_master and not needs_replica:
            # 4.9.3 reports that after the message is stored (fact 23).
            failure = response.code = ResponseCode.SLAVE_NOT_AVAILABLE
        if not (self.is_sync_flush or needs_replica):
            return response
        config = self.store_config
        return AwaitFlush(
            response,
            physical_offset_end,
            now_ms + config.sync_flush_timeout_ms,
            failure,
            now_ms + config.slave_timeout_ms if needs_replica else None,
            replica_failure,
            self.is_sync_flush,
        )

    def when_confirmed(
        self, response: RemotingCommand, physical_offset_end: int, now_ms: int
    ) -> RemotingCommand | AwaitFlush:
        """Let positions wait until all in-sync replicas have the messages that they count.

        A delayed message that was delivered is a new record. If its level's position reached the
        next master and the record did not, nobody would deliver it again.
        """
        if not self.awaits_confirmed:
            return response
        deadline_ms = now_ms + self.store_config.slave_timeout_ms
        return AwaitFlush(
            response,
            physical_offset_end,
            deadline_ms,
            replica_deadline_ms=deadline_ms,
            waits_for_disk=False,
        )

    def commit_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Commit the offset of a queue; a slave keeps it for its master, too.

        Raises: LimitReached.
        """
        key = (group, topic, queue_id)
        commits = self.slave_commits
        if self.is_slave and key not in commits and len(commits) >= SLAVE_COMMITS_MAX:
            raise LimitReached("offsets for its master", SLAVE_COMMITS_MAX)
        self.offsets.commit(group, topic, queue_id, offset)
        if self.is_slave:
            commits[key] = offset

    def keep_offsets(self, undo: Callable[[], None]) -> None:
        """Have the response wait until a change of the committed offsets is saved, or undo it."""
        self.instructions.append(Persist(self.offsets.file_name, undo))

    def push(
        self, channel_id: int, code: RequestCode, ext_fields: dict[str, str], body: bytes = b""
    ) -> None:
        """Send a one-way request to a client."""
        self._push_count += 1
        opaque = self._push_count & OPAQUE_MASK
        request = make_request(code, ext_fields, body, opaque=opaque, oneway=True)
        self.instructions.append(Push(channel_id, request))

    def log_refusal(self, event: str, error: RemoteProtocolError, code: int) -> None:
        """Have a line written about a request that a table, a limit or its account refused."""
        values = {"code": code, "cause": error.remark}
        self.instructions.append(WriteLine(Appender.PROTECTION, event, values))

    def forget_filters(self, change: GroupChange | None, now_ms: int) -> None:
        """Drop the filters of a group that its last client has left."""
        if change is not None and not change.member_count:
            self.filters.end(change.group, now_ms)

    def validate(self) -> None:
        """Assert the invariants of every table."""
        for table in vars(self).values():
            if hasattr(table, "validate"):
                table.validate()
