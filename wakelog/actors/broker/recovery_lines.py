"""What a recovery found, for the logs, for the user who started the broker, and for operators.

Source: the lines of org.apache.rocketmq.store.CommitLog.recoverNormally, recoverAbnormally and
store.DefaultMessageStore.load (4.9.3), which go to its log only.
"""

from wakelog.broker.health_values import StoreHealth
from wakelog.storage.durability.sum_keeper import SumStatistics
from wakelog.storage.recovery.steps import RecoveryReport
from wakelog.telemetry.logs import Log, logger

LINES_MAX = 4
"""Lines of one recovery that the user is shown; the log has the others."""


def write_recovery(report: RecoveryReport) -> None:
    """Write to the store's log what was found, and to its log of errors what was damaged."""
    log, errors = logger(Log.STORE), logger(Log.STORE_ERROR)
    log.info(
        "store recovered",
        clean_exit=report.clean_exit,
        begin=report.log_begin,
        end=report.log_end,
        end_reason=report.end_reason,
        checked_from=report.checked_from,
        records_checked=report.records_checked_count,
        watermark=report.watermark,
        after_another_broker=report.after_another_broker,
    )
    if report.watermark_doubt is not None:
        log.warning("watermark not trusted", cause=report.watermark_doubt)
    if report.positions_doubt is not None:
        log.warning("more checked than the part that was not durable", cause=report.positions_doubt)
    if report.read_only is not None:
        errors.error("the log takes no messages", cause=report.read_only)
    for piece in report.quarantined:
        errors.warning("bytes after the log's end kept aside", **piece._asdict())
    for piece in report.unrestored:
        errors.warning("bytes of a transient pool kept aside", **piece._asdict())
    for stretch in report.damaged:
        errors.error("damaged stretch of the log", **stretch._asdict())
    for path in (*report.commit_log_files_removed, *report.index_files_removed):
        log.warning("file removed", path=path)


def recovery_notices(report: RecoveryReport) -> list[str]:
    """Return what the user must know, a line each; of a sound store only who had it before."""
    lines = [] if report.read_only is None else [f"no messages are taken: {report.read_only}"]
    if report.after_another_broker:
        lines.append(
            "a RocketMQ broker had the store last; wakelog goes on with its "
            f"{report.log_end - report.log_begin} bytes of log, its topics, groups and offsets. "
            "docs/migration.md has the way back"
        )
    lines += [
        f"{piece.size_bytes} bytes at {piece.physical_offset} of the log were no whole message "
        f"({report.end_reason}); a copy is in {piece.path}"
        for piece in report.quarantined
    ]
    lines += [
        f"{piece.size_bytes} bytes for {piece.physical_offset} of the log, which a transient pool"
        f" held, have no place: another broker had the store; a copy is in {piece.path}"
        for piece in report.unrestored
    ]
    lines += [
        f"bytes {stretch.begin} to {stretch.end} of the log are damaged and passed over: "
        f"{stretch.reason}"
        for stretch in report.damaged
    ]
    if len(lines) <= LINES_MAX:
        return lines
    more_count = len(lines) - LINES_MAX
    return [*lines[:LINES_MAX], f"{more_count} more places like these; storeerror.log has all"]


def store_health(report: RecoveryReport, sums: SumStatistics | None) -> StoreHealth:
    """Return what an operator is told. sums: None until Retention has said what it did."""
    found = StoreHealth(
        clean_exit=int(report.clean_exit),
        checked_records=report.records_checked_count,
        cut_bytes=sum(piece.size_bytes for piece in report.quarantined),
        damaged_bytes=sum(one.end - one.begin for one in report.damaged),
    )
    if sums is None:
        return found
    return found._replace(
        summed_bytes=sums.summed_bytes,
        compared_bytes=sums.compared_bytes,
        compare_rounds=sums.compare_rounds_count,
        changed_blocks=sums.changed_blocks_count,
        sum_failures=sums.sum_failures_count,
    )
