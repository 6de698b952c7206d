"""`wakelog log`: verifies, prints, rebuilds and repairs a store, by the tools of `audit/`.

Those modules are imported when one of these commands runs: `wakelog up` needs none of them.

command   writes                                           while a broker runs
verify    a temporary folder outside the store             yes
dump      nothing                                          yes
tables    nothing (lag, deadletters, hotkeys)              yes
rebuild   the given folder; or the store, under its lock   only into a folder
repair    the store, under its lock                        no
"""

import itertools
import json
import sys
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from wakelog.actors.errors import NotPossible
from wakelog.cli.options import (
    CONFIG,
    LIMIT_DEFAULT,
    OUTPUT,
    SCRATCH,
    SET,
    STORE,
    Number,
    OutputForm,
    Text,
    option,
    switch,
)
from wakelog.cli.output import show
from wakelog.cli.program import FAILED
from wakelog.cli.root import program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wakelog.cli.cluster.output import Columns
    from wakelog.cli.log_operator import LogOperator
    from wakelog.dispatchers.log_cursor import BadStretch
    from wakelog.storage.config import StoreConfig
    from wakelog.storage.log.commit_log_reader import CommitLogReader

GROUPS_NAMED_MAX = 5


class StoreAt(NamedTuple):
    """Which store a command is about, and what it puts out."""

    store: Text = STORE
    config: Text = CONFIG
    settings: list[str] | None = SET
    output: OutputForm = OUTPUT

    @property
    def as_json(self) -> bool:
        """Whether objects are put out."""
        return self.output == "json"

    def store_config(self, **more: bool) -> "StoreConfig":
        """Return the configuration of the store, as `store_config` does."""
        from wakelog.cli.log_settings import store_config

        return store_config(self.store, self.config, self.settings or (), **more)

    def show(self, table: "Columns") -> None:
        """Put out a table."""
        show(table, print, as_json=self.as_json)


log = program.group("log", "Verify, print, count, rebuild or repair a store.", StoreAt)


@log.command()
def verify(at: StoreAt, scratch: Text = SCRATCH) -> int:
    """Prove a store sound, or list its damage.

    It exits with 1 if there is any.
    """
    from wakelog.audit.verify import verify as verify_store
    from wakelog.cli.log_operator import LogOperator
    from wakelog.cli.log_text import advice, report_json, report_lines

    config = at.store_config(needs_index=True)
    report = verify_store(config, scratch=scratch, operator=LogOperator(is_shown=not at.as_json))
    print(report_json(report) if at.as_json else "\n".join(report_lines(report)))
    for line in () if at.as_json else advice(report):
        _note(line)
    return 0 if report.findings.is_sound else FAILED


@log.command()
def dump(
    at: StoreAt,
    offset: Number = option("BYTES", "From this physical offset on."),
    topic: Text = option("NAME", "Of this topic."),
    queue: Number = option("N", "Of queues of this number."),
    queue_offset: Number = option("N", "At this place of their queue."),
    key: Text = option("KEY", "With this key or unique key."),
    since: Text = option("TIME", "Stored then or later: 10m, 2h, 2026-11-24T06:00."),
    until: Text = option("TIME", "Stored before that."),
    limit: Number = option("N", "How many records at most.  [default: 100]"),
    body_bytes: Number = option("N", "How much of each body.  [default: 1024]"),
    hexadecimal: bool = switch("Bodies in hexadecimal.", "--hex"),
) -> int:
    """Print records of the log."""
    from wakelog.audit.record_dump import Selection, selected_records
    from wakelog.cli.log_text import BODY_BYTES_SHOWN_MAX, record_json, record_line

    if (limit or 0) < 0 or (body_bytes or 0) < 0:
        raise NotPossible("a count below zero", "Give --limit and --body-bytes from 0 on.")
    selection = Selection(
        physical_offset=offset,
        topic=topic,
        queue_id=queue,
        queue_offset=queue_offset,
        key=key,
        since_ms=_moment_ms(since),
        until_ms=_moment_ms(until),
    )
    config = at.store_config(takes_log_alone=True)
    body_bytes_max = BODY_BYTES_SHOWN_MAX if body_bytes is None else body_bytes
    text = record_json if at.as_json else record_line
    count, count_max = 0, LIMIT_DEFAULT if limit is None else limit
    with _opened(config) as log:
        records = selected_records(log, selection, _print_gap)
        for record in itertools.islice(records, count_max):
            count += 1
            print(text(record, hexadecimal=hexadecimal, body_bytes_max=body_bytes_max))
    if limit is None and count == LIMIT_DEFAULT:
        _note(f"ended at {count} records: --limit shows more")
    if count == 0:
        _note("no record is selected")
    return 0


@log.command()
def lag(at: StoreAt, group: Text = option("NAME", "Of this group alone.")) -> None:
    """Count the messages that groups have not consumed.

    There is a row for each group and topic.
    """
    from wakelog.audit.log_traffic import committed_places, lags
    from wakelog.cli.cluster.output import Columns, Moment
    from wakelog.storage.file_system import FileSystem

    config = at.store_config(takes_log_alone=True)
    places = committed_places(FileSystem(), config)
    groups = sorted({place.group for place in places})
    if group is not None and group not in groups:
        raise NotPossible(
            f"group {group} has committed no offset in this store",
            f"Groups here: {', '.join(groups[:GROUPS_NAMED_MAX]) or 'none'}.",
        )
    wanted = [place for place in places if group in (None, place.group)]
    with _opened(config) as log:
        found = lags(log, wanted, _print_gap)
    rows = [(*row[:4], Moment(row.oldest_ms)) for row in found]
    heads = ("group", "topic", "messages", "bytes", "oldest")
    at.show(Columns(heads, rows, "no group has committed an offset"))


@log.command()
def deadletters(
    at: StoreAt,
    group: Text = option("NAME", "Of this group alone."),
    retries: int = option("N", "Retries before a message is a dead letter.", default=16),
) -> None:
    """Count dead letters by topic of origin and reason.

    There is a row for each of them and each group.
    """
    from wakelog.audit.log_traffic import dead_letters
    from wakelog.cli.cluster.output import Columns, Moment

    config = at.store_config(takes_log_alone=True)
    with _opened(config) as log:
        found = dead_letters(log, _print_gap, group=group or "", retries_max=retries)
    heads = ("group", "origin", "reason", "messages", "retries", "oldest", "newest")
    rows = [(*row[:5], Moment(row.oldest_ms), Moment(row.newest_ms)) for row in found]
    at.show(Columns(heads, rows, "no dead letters"))


@log.command()
def hotkeys(
    at: StoreAt,
    limit: int = option("N", "How many rows at most.", minimum=1, default=LIMIT_DEFAULT),
) -> None:
    """List the keys with the most messages.

    Each has its part of the topic in percent.
    """
    from wakelog.audit.log_traffic import hot_keys
    from wakelog.cli.cluster.output import Columns

    config = at.store_config(takes_log_alone=True)
    with _opened(config) as log:
        found = hot_keys(log, _print_gap)
    rows = [(*row[:4], 100 * row.share) for row in found[:limit]]
    heads = ("topic", "key", "messages", "bytes", "percent")
    at.show(Columns(heads, rows, "no message has a key"))
    if len(found) > limit:
        _note(f"{len(found) - limit} more: --limit shows them")


@contextmanager
def _opened(config: "StoreConfig") -> "Iterator[CommitLogReader]":
    """Open a store's log, to read it."""
    from wakelog.storage.file_system import FileSystem
    from wakelog.storage.log.commit_log_reader import CommitLogReader

    with closing(CommitLogReader(FileSystem(), config)) as log:
        yield log


def _moment_ms(text: str | None) -> int | None:
    from wakelog.cli.cluster.times import read_moment_ms
    from wakelog.client.clocks import wall_ms

    now_ms = wall_ms()
    found = None if text is None else read_moment_ms(text, now_ms)
    return now_ms if found == -1 else found


def passed_over(stretch: "BadStretch") -> str:
    """Return the line for a damaged stretch of the log."""
    return f"passed over  {stretch.begin} to {stretch.end}: {stretch.reason}"


def _print_gap(stretch: "BadStretch") -> None:
    _note(passed_over(stretch))


def _note(line: str) -> None:
    """Print to standard error: standard output may be piped on."""
    print(line, file=sys.stderr)


@log.command()
def rebuild(at: StoreAt, into: Text = option("DIR", "A new folder, in place of the store.")) -> int:
    """Make queues and index from the log.

    The old ones are kept aside.
    """
    from wakelog.audit.rebuild import rebuild_into
    from wakelog.audit.replacement import rebuild_store
    from wakelog.cli.log_operator import LogOperator

    config = at.store_config(takes_log_alone=into is not None)
    operator = LogOperator(is_shown=not at.as_json)
    if into is not None:
        found = rebuild_into(config, into, operator=operator)
    else:
        found = rebuild_store(config, operator)
    if at.as_json:
        print(
            json.dumps(
                {"records": found.records_count, "begin": found.begin, "end": found.end}
                | {"missing": [list(gap) for gap in found.missing]}
                | {"badStretches": [list(stretch) for stretch in found.bad_stretches]}
                | {"moves": operator.moves}
            )
        )
        return 0
    _print_undo(operator)
    for begin, end in found.missing:
        print(f"missing  {begin} to {end}: no segments, passed over")
    for stretch in found.bad_stretches:
        print(passed_over(stretch))
    print(f"rebuilt: {found.records_count} records from {found.begin} to {found.end}")
    return 0


@log.command()
def repair(at: StoreAt, scratch: Text = SCRATCH) -> int:
    """Put a damaged store right; nothing is deleted.

    What is damaged is quarantined, and the rest is made whole.
    """
    from wakelog.audit.repair import repair as repair_store
    from wakelog.cli.log_operator import LogOperator
    from wakelog.cli.log_text import report_json, report_lines

    config = at.store_config(needs_index=True)
    operator = LogOperator(is_shown=not at.as_json)
    report = repair_store(config, scratch=scratch, operator=operator)
    if at.as_json:
        done = {
            "quarantined": [piece._asdict() for piece in report.pieces],
            "moves": operator.moves,
        }
        print(json.dumps(done | {"after": json.loads(report_json(report.after))}))
    else:
        _print_undo(operator)
        for piece in report.pieces:
            print(f"cut    {piece.size_bytes} bytes at {piece.physical_offset} -> {piece.path}")
        if report.pieces:
            print("undo   write a file back into its segment, at the offset less the segment's")
        print("\n".join(report_lines(report.after)))
    return 0 if report.after.findings.is_sound else FAILED


def _print_undo(operator: "LogOperator") -> None:
    if operator.moves:
        print("undo   the same moves, last first, the other way round, while no broker runs")
