"""The table of threads is whole and true; `test_dashboards.py` compares the document with it."""

from itertools import chain

import pytest

from scripts.generate import ROOT
from scripts.rocketmq_threads import SECTIONS, AbsentThread, Row, Thread
from wakelog.actors.ray.options import TARGETS
from wakelog.telemetry.metrics import METRICS

ROWS: list[Row] = list(chain.from_iterable(SECTIONS.values()))
DONE = [row for row in ROWS if isinstance(row, Thread)]
ABSENT = [row for row in ROWS if isinstance(row, AbsentThread)]
EVERY_ACTOR = "every actor"

# What a thread dump and the sources of 4.9.3 show; none may be forgotten.
# fmt: off
NAMES = {
    "NettyNIOBoss", "NettyEPOLLBoss", "NettyServerNIOSelector", "NettyServerEPOLLSelector",
    "NettyServerCodecThread", "NettyServerPublicExecutor", "NettyEventExecutor",
    "ServerHouseKeepingService", "FileWatchService", "AclFileWatchService", "SendMessageThread",
    "PutMessageThread", "PullMessageThread", "ProcessReplyMessageThread", "QueryMessageThread",
    "AdminBrokerThread", "ClientManageThread", "HeartbeatThread", "EndTransactionThread",
    "ConsumerManageThread", "BrokerFastFailureScheduledThread", "PullRequestHoldService",
    "BrokerStats.record", "consumerOffset.persist", "consumerFilter.persist", "protectBroker",
    "printWaterMark", "dispatchBehindBytes", "fetchNameServerAddr", "printMasterAndSlaveDiff",
    "SlaveSynchronize.syncAll", "registerBrokerAll", "brokerOutApi_thread",
    "NettyClientSelector", "NettyClientWorkerThread", "NettyClientPublicExecutor",
    "ClientHouseKeepingService", "ClientHousekeepingScheduledThread",
    "FilterServerManagerScheduledThread", "TransactionalMessageCheckService",
    "Transaction-msg-check-thread", "BrokerStatsThread", "CommercialStatsThread",
    "DLegerRoleChangeHandler", "AllocateMappedFileService", "GroupCommitService",
    "FlushRealTimeService", "FlushDiskWatcher", "CommitRealTimeService", "ReputMessageService",
    "FlushConsumeQueueService", "FlushIndexFileThread", "StoreStatsService",
    "CleanCommitLogService", "CleanConsumeQueueService", "checkSelf", "debugLockEnable",
    "DiskCheckScheduledThread", "ScheduleMessageTimerThread",
    "ScheduleMessageExecutorHandleThread", "AcceptSocketService", "GroupTransferService",
    "ReadSocketService", "WriteSocketService", "HAClient", "RemotingExecutorThread",
    "scanNotActiveBroker", "printAllPeriodically", "AsyncAppender-Worker", "ShutdownHook",
}
# fmt: on


def test_every_thread_of_rocketmq_has_a_row() -> None:
    words = {word for row in ROWS for word in row.name.replace(",", "").replace(":", "").split()}
    assert not NAMES - words


def test_no_thread_has_two_rows() -> None:
    names = [row.name for row in ROWS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_no_cell_is_empty(row: Row) -> None:
    assert all(cell.strip() and "|" not in cell for cell in row)


@pytest.mark.parametrize("row", DONE, ids=lambda row: row.name)
def test_what_a_row_names_exists(row: Thread) -> None:
    assert (ROOT / row.module_path).is_file(), row.module_path
    assert (ROOT / row.test_path).is_file(), row.test_path
    assert row.metric in {name for spec in METRICS for name in spec.series_names}
    assert row.actor == EVERY_ACTOR or set(row.actor.split(", ")) <= TARGETS.keys()
