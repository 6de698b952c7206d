"""Who did what: a line for each action, and the newest of them for the page."""

import json

from wakelog.console.audit_log import ENTRIES_MAX, AuditLog, Entry


def test_each_entry_is_a_line_of_json_and_the_newest_come_first() -> None:
    lines: list[str] = []
    log = AuditLog(lines.append)
    for number in range(ENTRIES_MAX + 5):
        log.add(Entry(number, "ops", "10.0.0.7", f"wakelog reset g{number}", "done"))
    assert len(lines) == ENTRIES_MAX + 5 and len(log.entries) == ENTRIES_MAX
    assert log.entries[0].at_ms == ENTRIES_MAX + 4
    assert json.loads(lines[0]) == {
        "at_ms": 0,
        "account": "ops",
        "address": "10.0.0.7",
        "command": "wakelog reset g0",
        "result": "done",
    }


def test_a_line_of_a_command_stays_one_line() -> None:
    lines: list[str] = []
    AuditLog(lines.append).add(Entry(1, "a\nb", "", "wakelog send T 'x\ny'", "done"))
    assert "\n" not in lines[0]
