"""`wakelog log`: looks into a store, proves it, makes its queues and index anew.

The modules that do it are imported when one of these commands runs: `wakelog up` needs none.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Annotated

import typer

from wakelog.actors.errors import PlanRefused
from wakelog.cli.failures import FAILED

Text = str | None
Number = int | None

Store = Annotated[Text, typer.Option(metavar="DIR", help="Store directory.  [default: ~/store]")]
Config = Annotated[Text, typer.Option(metavar="FILE", help="RocketMQ's broker.conf.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="One setting of broker.conf; repeat."),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]
Scratch = Annotated[
    Text, typer.Option(metavar="DIR", help="Where a folder for the comparison is made.")
]
Into = Annotated[Text, typer.Option(metavar="DIR", help="A new folder, instead of the store.")]
LIMIT_DEFAULT = 100

log = typer.Typer(
    name="log",
    help="Look into a store: verify, dump, rebuild, repair.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@log.command()
def verify(
    store: Store = None,
    config: Config = None,
    settings: Settings = None,
    as_json: AsJson = False,
    scratch: Scratch = None,
) -> int:
    """Prove a store sound, or list its damage; exit code 1 if there is any."""
    from wakelog.cli.log_settings import store_config
    from wakelog.cli.log_text import report_json, report_lines
    from wakelog.cli.log_work import verify as verify_now

    settled = store_config(store, config, settings or ())
    report = verify_now(settled, scratch=scratch, show_progress=not as_json)
    print(report_json(report) if as_json else "\n".join(report_lines(report)))
    return 0 if report.findings.is_sound else FAILED


@log.command()
def dump(
    store: Store = None,
    config: Config = None,
    settings: Settings = None,
    offset: Annotated[Number, typer.Option(help="Physical offset to begin at.")] = None,
    topic: Annotated[Text, typer.Option(help="Of this topic.")] = None,
    queue: Annotated[Number, typer.Option(help="Of this queue.")] = None,
    queue_offset: Annotated[Number, typer.Option(help="At this place of its queue.")] = None,
    key: Annotated[Text, typer.Option(help="With this key or unique key.")] = None,
    since: Annotated[
        Number, typer.Option(metavar="MS", help="Stored at this time or later.")
    ] = None,
    until: Annotated[Number, typer.Option(metavar="MS", help="Stored before this time.")] = None,
    limit: Annotated[int, typer.Option(help="How many records at most.")] = LIMIT_DEFAULT,
    body_bytes: Annotated[Number, typer.Option(help="How much of each body.")] = None,
    hexadecimal: Annotated[bool, typer.Option("--hex", help="Bodies in hexadecimal.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="A line of JSON each.")] = False,
) -> int:
    """Print records of the log."""
    from wakelog.cli.log_settings import store_config
    from wakelog.cli.log_text import BODY_BYTES_SHOWN_MAX, record_json, record_line
    from wakelog.dispatchers.record_dump import Selection, selected_records
    from wakelog.storage.commit_log_reader import CommitLogReader
    from wakelog.storage.file_system import RealFileSystem

    if limit < 0 or (body_bytes or 0) < 0:
        raise PlanRefused("a count below zero", "Give --limit and --body-bytes from 0 on.")
    reader = CommitLogReader(RealFileSystem(), store_config(store, config, settings or ()))
    selection = Selection(
        physical_offset=offset,
        topic=topic,
        queue_id=queue,
        queue_offset=queue_offset,
        key=key,
        since_ms=since,
        until_ms=until,
    )
    body_bytes_max = BODY_BYTES_SHOWN_MAX if body_bytes is None else body_bytes
    text = record_json if as_json else record_line
    try:
        for record in itertools.islice(selected_records(reader, selection), limit):
            print(text(record, hexadecimal=hexadecimal, body_bytes_max=body_bytes_max))
    finally:
        reader.close()
    return 0


@log.command()
def rebuild(
    store: Store = None,
    config: Config = None,
    settings: Settings = None,
    into: Into = None,
    as_json: AsJson = False,
) -> int:
    """Make queues and index from the log; what was there is kept aside."""
    from wakelog.cli.log_settings import store_config
    from wakelog.cli.log_work import rebuild_into, rebuild_store

    settled = store_config(store, config, settings or ())
    moves: Sequence[tuple[str, str]] = []
    if into is not None:
        found = rebuild_into(settled, into, show_progress=not as_json)
    else:
        found, moves = rebuild_store(settled, show_progress=not as_json)
    if as_json:
        print(
            json.dumps(
                {"records": found.records_count, "begin": found.begin, "end": found.end}
                | {"missing": [list(gap) for gap in found.missing]}
                | {"moves": [list(move) for move in moves]}
            )
        )
        return 0
    _print_moves(moves)
    for begin, end in found.missing:
        print(f"missing  {begin} to {end}: no segments, passed over")
    print(f"rebuilt: {found.records_count} records from {found.begin} to {found.end}")
    return 0


@log.command()
def repair(
    store: Store = None,
    config: Config = None,
    settings: Settings = None,
    as_json: AsJson = False,
    scratch: Scratch = None,
) -> int:
    """Quarantine what is damaged and make the rest whole; nothing is deleted."""
    from wakelog.cli.log_settings import store_config
    from wakelog.cli.log_text import report_json, report_lines
    from wakelog.cli.log_work import repair as repair_now

    settled = store_config(store, config, settings or ())
    report = repair_now(settled, scratch=scratch, show_progress=not as_json)
    if as_json:
        done = {
            "quarantined": [piece._asdict() for piece in report.pieces],
            "moves": [list(move) for move in report.moves],
        }
        print(json.dumps(done | {"after": json.loads(report_json(report.after))}))
    else:
        for piece in report.pieces:
            print(f"cut    {piece.size_bytes} bytes at {piece.physical_offset} -> {piece.path}")
        if report.pieces:
            print("undo   write a file back into its segment, at the offset less the segment's")
        _print_moves(report.moves)
        print("\n".join(report_lines(report.after)))
    return 0 if report.after.findings.is_sound else FAILED


def _print_moves(moves: Sequence[tuple[str, str]]) -> None:
    for source, target in moves:
        print(f"moved  {source} -> {target}")
    if moves:
        print("undo   the same moves, last first, the other way round, while no broker runs")
