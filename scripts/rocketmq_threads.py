"""Every thread and scheduled task of a 4.9.3 broker and name server, and where its work is done.

One row a thread or task, in the order of a message's way. `docs/threads.md` is drawn from it; a
test holds that the modules, metrics and tests that it names exist and that no cell is empty.

A thread of RocketMQ is no thread here. The work of a pool of threads takes turns on the Broker's
loop. The work of a scheduled thread is done by an actor when it is due.

Source: org.apache.rocketmq.broker.BrokerController, namesrv.NamesrvController,
store.DefaultMessageStore, store.CommitLog, remoting.netty.NettyRemotingServer (4.9.3), and whatever
they start.
"""

from typing import Final, NamedTuple


class Thread(NamedTuple):
    """A thread or task whose work is done here.

    name: 4.9.3's, of the thread or as "thread: task"; period: 4.9.3's, or the size of the pool.
    actor: which actor does it here; core: the module under `wakelog` with its rules.
    metric: what shows that it is done.
    """

    name: str
    work: str
    period: str
    actor: str
    core: str
    metric: str

    @property
    def module_path(self) -> str:
        """Where the core is in the repository."""
        return f"wakelog/{self.core.replace('.', '/')}.py"

    @property
    def test_path(self) -> str:
        """Where the core is tested: tests mirror the tree."""
        folder, _, module = self.core.rpartition(".")
        return f"tests/{folder.replace('.', '/')}/test_{module}.py"


class AbsentThread(NamedTuple):
    """A thread or task whose work is not done here, and why."""

    name: str
    work: str
    period: str
    why: str


Row = Thread | AbsentThread

BOTH: Final = "Broker, NameServer"
TASK: Final = "BrokerControllerScheduledThread: "
STORE_TASK: Final = "StoreScheduledThread: "

# Two lines a row: what it is in 4.9.3, then what it is here.
# fmt: off
NETWORK: Final[tuple[Row, ...]] = (
    Thread("NettyNIOBoss, NettyEPOLLBoss", "accepts connections", "1 thread",
           BOTH, "network.server", "rocketmq_connections_accepted_total"),
    Thread("NettyServerNIOSelector, NettyServerEPOLLSelector", "reads and writes sockets",
           "serverSelectorThreads, 3",
           BOTH, "network.connection", "rocketmq_received_bytes_total"),
    Thread("NettyServerCodecThread", "decodes and encodes frames", "serverWorkerThreads, 8",
           BOTH, "protocol.frame", "rocketmq_requests_total"),
    Thread("NettyServerCodecThread: IdleStateHandler", "closes connections that are silent",
           "serverChannelMaxIdleTimeSeconds, 120 s",
           BOTH, "network.activity", "rocketmq_connections_closed_total"),
    Thread("NettyServerPublicExecutor", "runs requests that have no pool of their own", "4 threads",
           BOTH, "network.turn", "rocketmq_turns_total"),
    Thread("NettyEventExecutor", "reports connections that came and went", "up to 3 s",
           BOTH, "network.connection_table", "rocketmq_connections"),
    Thread("ServerHouseKeepingService", "gives up requests to clients that do not answer", "1 s",
           "Broker", "network.server", "rocketmq_requests_total"),
    Thread("FileWatchService", "reads changed certificates again", "500 ms",
           BOTH, "network.certificate_changes", "rocketmq_certificate_reads_total"),
    Thread("AclFileWatchService", "reads changed access rules again", "5 s; here each second",
           "Broker", "broker.access.control", "rocketmq_access_reloads_total"),
)

REQUESTS: Final[tuple[Row, ...]] = (
    Thread("SendMessageThread", "stores messages, takes them back to be tried again",
           "sendMessageThreadPoolNums, a core each, up to 4",
           "Broker", "broker.processors.send", "rocketmq_store_put_messages_total"),
    Thread("PutMessageThread", "answers a send once its message is stored or durable",
           "putMessageFutureThreadPoolNums, a core each, up to 4",
           "Broker", "broker.processors.send", "rocketmq_flush_waiting_answers"),
    Thread("PullMessageThread", "reads messages for consumers",
           "pullMessageThreadPoolNums, 16 and 2 a core",
           "Broker", "broker.processors.pull", "rocketmq_store_get_messages_total"),
    Thread("ProcessReplyMessageThread", "passes a reply on to the client that asked",
           "processReplyMessageThreadPoolNums, 16 and 2 a core",
           "Broker", "broker.processors.reply", "rocketmq_requests_total"),
    Thread("QueryMessageThread", "finds messages by key and by id",
           "queryMessageThreadPoolNums, 8 and 1 a core",
           "Broker", "broker.processors.query", "rocketmq_pool_requests_total"),
    Thread("AdminBrokerThread", "answers codes without a pool: topics, groups, offsets, locks",
           "adminBrokerThreadPoolNums, 16",
           "Broker", "broker.processors.topics", "rocketmq_requests_by_code_total"),
    Thread("ClientManageThread", "lets clients leave, checks their subscriptions",
           "clientManageThreadPoolNums, 32",
           "Broker", "broker.processors.clients", "rocketmq_lane_requests_total"),
    Thread("HeartbeatThread", "notes producers and consumers",
           "heartbeatThreadPoolNums, a core each, up to 32",
           "Broker", "broker.membership", "rocketmq_consumer_clients"),
    Thread("EndTransactionThread", "commits or rolls back a half message",
           "endTransactionThreadPoolNums, at least 8 and 2 a core",
           "Broker", "broker.processors.transactions", "rocketmq_lane_requests_total"),
    Thread("ConsumerManageThread", "keeps the members of a group and their offsets",
           "consumerManageThreadPoolNums, 32",
           "Broker", "broker.processors.offsets", "rocketmq_offset_commits_total"),
    Thread("BrokerFastFailureScheduledThread", "refuses requests that waited too long", "10 ms",
           "Broker", "network.lanes", "rocketmq_lane_expired_requests_total"),
    Thread("PullRequestHoldService", "wakes pulls whose message or time has come", "5 s",
           "PullHold", "broker.pull_hold", "rocketmq_longpoll_wakes_total"),
)

TASKS: Final[tuple[Row, ...]] = (
    Thread(TASK + "BrokerStats.record", "keeps the totals of midnight", "1 day",
           "Broker", "broker.store_stats", "rocketmq_store_put_messages_total"),
    Thread(TASK + "consumerOffset.persist", "writes consumerOffset.json",
           "flushConsumerOffsetInterval, 5 s",
           "Broker", "broker.housekeeping", "rocketmq_table_saves_total"),
    Thread(TASK + "consumerFilter.persist", "writes consumerFilter.json", "10 s",
           "Broker", "broker.housekeeping", "rocketmq_table_saves_total"),
    AbsentThread(TASK + "protectBroker", "bars groups with a large lag", "3 min",
                 "off by default (disableConsumeIfConsumerReadSlowly), and cold reads do not hold "
                 "up the others here; its log has refused requests and a full disk"),
    Thread(TASK + "printWaterMark", "says how full the pools' queues are", "1 s",
           "Broker", "actors.broker.state_log", "rocketmq_lane_head_wait_seconds"),
    Thread(TASK + "dispatchBehindBytes", "logs the lag of dispatch", "1 min",
           "Broker", "actors.broker.state_log", "rocketmq_dispatch_lag_bytes"),
    AbsentThread(TASK + "fetchNameServerAddr", "asks a web server for name servers", "2 min",
                 "off by default (fetchNamesrvAddrByAddressServer); namesrvAddr names them"),
    AbsentThread(TASK + "printMasterAndSlaveDiff", "logs the lag of a slave", "1 min",
                 "the metric rocketmq_slave_behind_bytes has it"),
    Thread(TASK + "SlaveSynchronize.syncAll", "copies the tables of a master", "10 s",
           "Broker", "broker.replication.table_sync", "rocketmq_tables_copied_total"),
    Thread(TASK + "registerBrokerAll", "registers with every name server",
           "registerNameServerPeriod, 30 s",
           "Broker", "broker.registration", "rocketmq_registrations_total"),
    Thread("brokerOutApi_thread", "registers with several name servers at once", "4 to 10 threads",
           "Broker", "actors.broker.name_servers", "rocketmq_registration_failures_total"),
    Thread("NettyClientSelector, NettyClientWorkerThread, NettyClientPublicExecutor",
           "carry the broker's own requests and their answers", "1, 4 and 1 a core",
           "Broker", "network.peer", "rocketmq_registrations_total"),
    Thread("ClientHouseKeepingService", "gives up the broker's own requests after a time", "1 s",
           "Broker", "network.client", "rocketmq_registration_failures_total"),
    Thread("ClientHousekeepingScheduledThread", "drops clients that send no heartbeat", "10 s",
           "Broker", "broker.housekeeping", "rocketmq_consumer_groups"),
    AbsentThread("FilterServerManagerScheduledThread", "starts filter servers", "30 s",
                 "off by default (filterServerNums); they run Java classes that consumers send"),
    Thread("TransactionalMessageCheckService", "says which half messages to ask about",
           "transactionCheckInterval, 60 s",
           "TransactionCheck", "broker.transaction_check", "rocketmq_transactions_discarded_total"),
    Thread("Transaction-msg-check-thread", "asks producers about half messages", "2 to 5 threads",
           "Broker", "broker.half_checks", "rocketmq_transactions_checked_total"),
    Thread("BrokerStatsThread", "samples and prints traffic by topic and by group", "10 s to 1 day",
           "Broker", "broker.broker_stats", "rocketmq_topic_put_messages_total"),
    AbsentThread("CommercialStatsThread", "samples what a cloud provider bills", "10 s to 1 day",
                 "there is no billing"),
    AbsentThread("DLegerRoleChangeHandler", "turns a broker into a master or a slave", "1 thread",
                 "its log has another format; with wakelog.register the election does that"),
)

STORE: Final[tuple[Row, ...]] = (
    Thread("AllocateMappedFileService", "makes segments ahead of need", "waits",
           "AllocateMappedFile", "storage.log.allocate", "rocketmq_segments_made_total"),
    Thread("GroupCommitService", "makes durable what senders wait for", "10 ms, or woken",
           "Flush", "storage.log.flush", "rocketmq_flushes_total"),
    Thread("FlushRealTimeService", "makes durable what gathered",
           "flushIntervalCommitLog, 500 ms",
           "Flush", "storage.log.flush", "rocketmq_flush_lag_bytes"),
    Thread("FlushDiskWatcher", "answers senders that waited too long for the disk",
           "syncFlushTimeout, 5 s",
           "Broker", "actors.broker.log_progress", "rocketmq_flush_waits_timed_out_total"),
    Thread("CommitRealTimeService", "copies the transient pool to segments",
           "commitIntervalCommitLog, 200 ms",
           "Commit", "storage.log.transient_pool", "rocketmq_committed_bytes_total"),
    Thread("ReputMessageService", "has new records dispatched",
           "20 ms, none if a pull waits for it",
           "Reput", "dispatchers.reput", "rocketmq_dispatched_messages_total"),
    Thread("FlushConsumeQueueService", "makes queues durable, and the checkpoint",
           "flushIntervalConsumeQueue, 1 s",
           "Reput", "dispatchers.sync_files", "rocketmq_dispatch_flush_lag_bytes"),
    Thread("FlushIndexFileThread", "makes a full index file durable", "once a file",
           "Reput", "dispatchers.index", "rocketmq_index_files"),
    Thread("StoreStatsService", "samples and prints puts and gets", "1 s",
           "Broker", "broker.store_stats", "rocketmq_store_gets_found_total"),
    Thread(STORE_TASK + "CleanCommitLogService", "removes expired segments",
           "cleanResourceInterval, 10 s",
           "Retention", "storage.retention.retention", "rocketmq_segments_removed_total"),
    Thread(STORE_TASK + "CleanConsumeQueueService", "removes what led to removed segments",
           "cleanResourceInterval, 10 s",
           "Reput", "dispatchers.consume_queue", "rocketmq_retention_runs_total"),
    AbsentThread(STORE_TASK + "checkSelf", "checks for gaps between files", "10 min",
                 "recovery checks for them before the broker starts; "
                 "a log with a gap takes no messages"),
    AbsentThread(STORE_TASK + "debugLockEnable", "writes stacks while the log's lock is held long",
                 "1 s", "the log has one writer and no lock; the loop's lag is a metric"),
    Thread("DiskCheckScheduledThread", "checks how full the disks are", "10 s",
           "Retention", "storage.retention.retention_files", "rocketmq_disk_used_ratio"),
    Thread("ScheduleMessageTimerThread", "delivers delayed messages that are due", "100 ms",
           "Schedule", "broker.schedule", "rocketmq_delayed_messages_delivered_total"),
    Thread("ScheduleMessageTimerThread: persist", "writes delayOffset.json",
           "flushDelayOffsetInterval, 10 s",
           "Broker", "broker.housekeeping", "rocketmq_table_saves_total"),
    Thread("ScheduleMessageExecutorHandleThread", "takes in what became of deliveries", "10 ms",
           "Broker", "broker.delayed_delivery", "rocketmq_delayed_messages_undeliverable_total"),
    Thread("AcceptSocketService", "accepts slaves", "waits",
           "Broker", "broker.replication.shipping", "rocketmq_slaves"),
    Thread("GroupTransferService", "answers sends once a slave has them", "10 ms, or woken",
           "Broker", "broker.offset_waiters", "rocketmq_replica_waiting_answers"),
    Thread("ReadSocketService, WriteSocketService",
           "carry the log to one slave", "1 s",
           "Broker", "broker.replication.shipping", "rocketmq_slave_sent_bytes_total"),
    Thread("HAClient", "carries the log from a master", "1 s",
           "Broker", "broker.replication.replica_fetch", "rocketmq_followed_bytes_total"),
)

NAME_SERVER: Final[tuple[Row, ...]] = (
    Thread("RemotingExecutorThread", "answers routes, takes registrations",
           "serverWorkerThreads, 8",
           "NameServer", "nameserver.processors", "rocketmq_nameserver_requests_by_code_total"),
    Thread("NSScheduledThread: scanNotActiveBroker", "drops brokers that were not heard of", "10 s",
           "NameServer", "nameserver.route_table", "rocketmq_nameserver_addresses_left_total"),
    AbsentThread("NSScheduledThread: printAllPeriodically", "writes every value to the log",
                 "10 min", "code 101 returns a value to any client"),
)

EVERYWHERE: Final[tuple[Row, ...]] = (
    Thread("AsyncAppender-Worker", "writes log lines to their files", "9 threads, waits",
           "every actor", "telemetry.logs", "rocketmq_loop_lag_seconds"),
    Thread("ShutdownHook", "stops everything in order", "once",
           "Supervisor", "actors.deploy.supervisor", "rocketmq_actor_attached"),
)
# fmt: on

SECTIONS: Final[dict[str, tuple[Row, ...]]] = {
    "Network": NETWORK,
    "Requests": REQUESTS,
    "Scheduled tasks of the broker, and its calls": TASKS,
    "Store": STORE,
    "Name server": NAME_SERVER,
    "Everywhere": EVERYWHERE,
}
"""In the order in which the document shows them."""
