"""The output of findings and records."""

import json

from tests.fakes.records import record
from wakelog.audit.findings import FINDINGS_KEPT_MAX, Finding, Findings, Severity
from wakelog.audit.rebuild import LogReport
from wakelog.audit.verify import VerifyReport
from wakelog.cli.log_text import advice, record_json, record_line, report_json, report_lines
from wakelog.protocol.record import decode_record

LOG = LogReport(0, 1000, 1, 0, 0, (), 0, 0, ())
NOTE = Finding(Severity.NOTE, "file", "commitlog/x", "unknown name")
QUEUE = Finding(Severity.DAMAGE, "queue", "consumequeue/T/0", "no entry", 40, "T", 0, 7, 2)


def report(*found: Finding, is_live: bool = False) -> VerifyReport:
    findings = Findings()
    for finding in found:
        findings.add(finding)
    return VerifyReport(findings, is_live, LOG, 1, 2, 3)


def test_rows_are_aligned_and_a_verdict_ends_them() -> None:
    assert report_lines(report(NOTE, QUEUE)) == [
        "note    file   commitlog/x                                        unknown name",
        "damage  queue  consumequeue/T/0  queue offset 7, 2 places  at 40  no entry",
        "damaged: 1 place; 1 record in 1000 bytes, 1 queue with 2 entries, 3 keys",
    ]


def test_a_sound_store_that_is_in_use() -> None:
    assert report_lines(report(is_live=True)) == [
        "sound, while its broker runs: 1 record in 1000 bytes, 1 queue with 2 entries, 3 keys"
    ]


def test_a_broken_table_is_restored_and_queues_are_repaired() -> None:
    table = Finding(Severity.DAMAGE, "table", "config/topics.json", "no JSON")
    assert [line[:24] for line in advice(report(table))] == ["next: restore the table "]
    assert [line[:24] for line in advice(report(QUEUE))] == ["next: wakelog log repair"]
    assert len(advice(report(table, QUEUE))) == 2


def test_what_is_left_out_is_said() -> None:
    lines = report_lines(report(*[QUEUE] * (FINDINGS_KEPT_MAX + 2)))
    assert len(lines) == FINDINGS_KEPT_MAX + 1
    assert lines[-1].startswith("damaged: 1002 places (2 of them not shown); ")


def test_nothing_was_read() -> None:
    assert report_lines(VerifyReport(Findings(), False)) == ["sound: nothing was read"]
    assert json.loads(report_json(VerifyReport(Findings(), False)))["log"] is None


def test_findings_as_json_have_their_numbers() -> None:
    [finding] = json.loads(report_json(report(QUEUE)))["findings"]
    assert finding == {
        "severity": "damage",
        "kind": "queue",
        "place": "consumequeue/T/0",
        "reason": "no entry",
        "physicalOffset": 40,
        "topic": "T",
        "queueId": 0,
        "queueOffset": 7,
        "affectedCount": 2,
    }


def test_a_body_that_is_no_text() -> None:
    found = decode_record(record(0, body=b"\xff\x00abc"))
    line = record_line(found, hexadecimal=False, body_bytes_max=3)
    assert line.endswith("'\\\\xff\\x00a'...")
    assert json.loads(record_json(found, hexadecimal=True, body_bytes_max=3))["body"] == "ff0061"


def test_hosts_and_times_are_for_reading() -> None:
    found = decode_record(
        record(0, born_host=("::1", 1), store_host=("10.0.0.1", 2), store_timestamp_ms=1500)
    )
    line = record_line(found, hexadecimal=False, body_bytes_max=3)
    assert line.split()[2] == "1970-01-01T00:00:01.500Z"
    shown = json.loads(record_json(found, hexadecimal=False, body_bytes_max=3))
    assert (shown["bornHost"], shown["storeHost"]) == ("[::1]:1", "10.0.0.1:2")
    assert shown["storeTimestamp"] == 1500
    strange = decode_record(record(0, store_timestamp_ms=2**62))
    line = record_line(strange, hexadecimal=False, body_bytes_max=3)
    assert line.split()[2:4] == [str(2**62), "ms"]
