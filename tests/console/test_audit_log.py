"""Who did what: a line for each action, and the newest of them for the page."""

import json

from wakelog.console.audit_log import (
    ENTRIES_MAX,
    REFUSED_MAX,
    REFUSED_MS,
    TEXT_LENGTH_MAX,
    AuditLog,
    Entry,
)


def test_each_entry_is_a_line_of_json_and_the_newest_come_first() -> None:
    lines: list[str] = []
    log = AuditLog(lines.append)
    for number in range(ENTRIES_MAX + 5):
        log.add(Entry(number, "ops", "10.0.0.7", f"wakelog reset g{number}", "done"))
    assert len(lines) == ENTRIES_MAX + 5 and len(log.entries) == ENTRIES_MAX
    assert log.entries[0].at_ms == ENTRIES_MAX + 4
    assert json.loads(lines[0]) == {
        "timestamp": "1970-01-01T00:00:00.000Z",
        "account": "ops",
        "address": "10.0.0.7",
        "command": "wakelog reset g0",
        "result": "done",
    }


def test_a_line_of_a_command_stays_one_line() -> None:
    lines: list[str] = []
    AuditLog(lines.append).add(Entry(1, "a\nb", "", "wakelog send T 'x\ny'", "done"))
    assert "\n" not in lines[0]


def test_what_is_refused_pushes_out_nothing_that_was_done() -> None:
    lines: list[str] = []
    log = AuditLog(lines.append)
    log.add(Entry(0, "ops", "", "wakelog reset g t", "done"))
    refused = Entry(REFUSED_MS, "guest", "10.0.0.7", "GET /do/x", "refused")
    for _ in range(2 * ENTRIES_MAX):
        log.add_refused(refused)
    assert len(lines) == 1 + REFUSED_MAX
    assert log.entries[-1].result == "done"
    log.add_refused(refused._replace(at_ms=2 * REFUSED_MS))
    assert log.entries[1].result == f"refused: {2 * ENTRIES_MAX - REFUSED_MAX:,} times"
    assert log.entries[0].command == "GET /do/x"


def test_a_long_command_is_cut_and_characters_that_mislead_are_written_out() -> None:
    lines: list[str] = []
    log = AuditLog(lines.append)
    log.add(Entry(1, "ops", "", "x" * (1 << 20), "\u202e \x9b \ud800"))
    assert len(lines[0]) < 2 * TEXT_LENGTH_MAX
    assert "1,048,576 characters" in log.entries[0].command
    assert lines[0].isascii() and lines[0].isprintable()
