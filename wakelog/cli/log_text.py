"""The output of `wakelog log`: aligned rows and a verdict, or JSON.

damage  queue  consumequeue/T/0   queue offset 50, 33 places   at 1045685   no entry
damaged: 1 place; 808 records in 1793257 bytes, 12 queues with 808 entries, 1796 keys
"""

import json
from datetime import UTC, datetime
from typing import Any

from wakelog.audit.findings import Finding, Severity
from wakelog.audit.repair import KEPT, MENDED
from wakelog.audit.store_files import TABLE
from wakelog.audit.verify import VerifyReport
from wakelog.cli.output import aligned, camel
from wakelog.protocol.properties import decode_properties
from wakelog.protocol.record import Host, MessageRecord

BODY_BYTES_SHOWN_MAX = 1_024
"""Of one body, by default: a screen of text."""


def report_lines(report: VerifyReport) -> list[str]:
    """Return the findings, aligned, and the verdict."""
    rows = [
        (
            finding.severity.value,
            finding.kind,
            finding.place,
            _queue_text(finding),
            "" if finding.physical_offset is None else f"at {finding.physical_offset}",
            finding.reason,
        )
        for finding in report.findings.kept
    ]
    return [*aligned(rows), verdict(report)]


def verdict(report: VerifyReport) -> str:
    """Return the line that states whether a store is sound."""
    findings = report.findings
    checked = "nothing was read"
    if report.log is not None:
        size = report.log.end - report.log.begin
        checked = (
            f"{_count(report.log.records_count, 'record')} in {_count(size, 'byte')}, "
            f"{_count(report.queues_count, 'queue')} with "
            f"{_count(report.entries_count, 'entry', 'entries')}, "
            f"{_count(report.keys_count, 'key')}"
        )
    live = ", while its broker runs" if report.is_live else ""
    shown = len(findings.kept)
    left_out = findings.damages_count + findings.notes_count - shown
    more = f" ({left_out} of them not shown)" if left_out else ""
    if findings.is_sound:
        return f"sound{live}: {checked}{more}"
    return f"damaged{live}: {_count(findings.damages_count, 'place')}{more}; {checked}"


def advice(report: VerifyReport) -> list[str]:
    """Return what can be done about the damage, one line for each remedy."""
    kinds = {
        finding.kind for finding in report.findings.kept if finding.severity is Severity.DAMAGE
    }
    lines = []
    if kinds & MENDED:
        first = "stop the broker, then " if report.is_live else ""
        lines.append(
            f"next: {first}wakelog log repair; it rebuilds queues and index and deletes nothing"
        )
    if TABLE in kinds:
        lines.append(
            "next: restore the table from a backup; without it and its .bak a broker starts, and "
            "says what it forgets"
        )
    if kinds & KEPT:
        lines.append("what rotted in the log hides only itself; only a copy of it brings it back")
    return lines


def report_json(report: VerifyReport) -> str:
    """Return everything as one JSON object."""
    findings = [
        {camel(name): value for name, value in finding._asdict().items()}
        | {"severity": finding.severity.value}
        for finding in report.findings.kept
    ]
    log: dict[str, Any] | None = None
    if report.log is not None:
        found = report.log
        log = {
            "begin": found.begin,
            "end": found.end,
            "records": found.records_count,
            "tailBytes": found.tail_bytes,
        }
    return json.dumps(
        {
            "sound": report.findings.is_sound,
            "live": report.is_live,
            "log": log,
            "queues": report.queues_count,
            "entries": report.entries_count,
            "keys": report.keys_count,
            "damages": report.findings.damages_count,
            "notes": report.findings.notes_count,
            "findings": findings,
        }
    )


def record_line(record: MessageRecord, *, hexadecimal: bool, body_bytes_max: int) -> str:
    """Return one record as a line of text."""
    body, cut = _body(record.body, hexadecimal, body_bytes_max)
    properties = " ".join(
        f"{name}={value}" for name, value in decode_properties(record.properties_text).items()
    )
    return (
        f"{record.physical_offset:>12}  {record.topic}/{record.queue_id}@{record.queue_offset}  "
        f"{_moment_text(record.store_timestamp_ms)}  {properties}  {body!r}{'...' if cut else ''}"
    )


def record_json(record: MessageRecord, *, hexadecimal: bool, body_bytes_max: int) -> str:
    """Return one record as a line of JSON."""
    body, cut = _body(record.body, hexadecimal, body_bytes_max)
    return json.dumps(
        {
            "physicalOffset": record.physical_offset,
            "sizeBytes": record.size_bytes,
            "topic": record.topic,
            "queueId": record.queue_id,
            "queueOffset": record.queue_offset,
            "sysFlag": record.sys_flag,
            "flag": record.flag,
            "bornTimestamp": record.born_timestamp_ms,
            "bornHost": _host_text(record.born_host),
            "storeTimestamp": record.store_timestamp_ms,
            "storeHost": _host_text(record.store_host),
            "reconsumeTimes": record.reconsume_times,
            "properties": decode_properties(record.properties_text),
            "bodyBytes": len(record.body),
            "body": body,
            "bodyCut": cut,
        }
    )


def _moment_text(moment_ms: int) -> str:
    try:
        moment = datetime.fromtimestamp(moment_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):  # a record may hold any number
        return f"{moment_ms} ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _host_text(host: Host) -> str:
    address, port = host
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _body(body: bytes, hexadecimal: bool, bytes_max: int) -> tuple[str, bool]:
    shown = body[:bytes_max]
    text = shown.hex() if hexadecimal else shown.decode("utf-8", "backslashreplace")
    return text, len(shown) < len(body)


def _queue_text(finding: Finding) -> str:
    if finding.queue_offset is None:
        return "" if finding.affected_count is None else _count(finding.affected_count, "key")
    return f"queue offset {finding.queue_offset}, {_count(finding.affected_count or 0, 'place')}"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
