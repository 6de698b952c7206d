"""`wakelog log`: looks into a store, proves it, makes its queues and index anew.

The modules that do it are imported when one of these commands runs: `wakelog up` needs none.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from wakelog.actors.errors import PlanRefused
from wakelog.cli.failures import FAILED

if TYPE_CHECKING:
    from wakelog.dispatchers.log_cursor import BadStretch

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
    Text,
    typer.Option(
        metavar="DIR", help="Where the folder for the comparison is made.  [default: TMPDIR]"
    ),
]
Into = Annotated[Text, typer.Option(metavar="DIR", help="A new folder, in place of the store.")]
LIMIT_DEFAULT = 100

log = typer.Typer(
    name="log",
    help="Look into a store: verify, dump, rebuild, repair.",
    rich_markup_mode=None,
)


@log.callback(invoke_without_command=True)
def help_without_command(context: typer.Context) -> None:
    """Print the help of a group of commands if none of them is named."""
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit


@log.command(short_help="Prove a store sound, or list its damage.")
def verify(
    store: Store = None,
    config: Config = None,
    settings: Settings = None,
    as_json: AsJson = False,
    scratch: Scratch = None,
) -> int:
    """Prove a store sound, or list its damage; exit code 1 if there is any."""
    from wakelog.cli.log_settings import store_config
    from wakelog.cli.log_text import advice, report_json, report_lines
    from wakelog.cli.log_work import verify as verify_now

    settled = store_config(store, config, settings or ())
    report = verify_now(settled, scratch=scratch, show_progress=not as_json)
    print(report_json(report) if as_json else "\n".join(report_lines(report)))
    for line in () if as_json else advice(report):
        _note(line)
    return 0 if report.findings.is_sound else FAILED


@log.command()
def dump(
    store: Store = None,
    config: Config = None,
    settings: Settings = None,
    offset: Annotated[
        Number, typer.Option(metavar="BYTES", help="From this physical offset on.")
    ] = None,
    topic: Annotated[Text, typer.Option(metavar="NAME", help="Of this topic.")] = None,
    queue: Annotated[Number, typer.Option(metavar="N", help="Of queues of this number.")] = None,
    queue_offset: Annotated[
        Number, typer.Option(metavar="N", help="At this place of their queue.")
    ] = None,
    key: Annotated[Text, typer.Option(metavar="KEY", help="With this key or unique key.")] = None,
    since: Annotated[
        Text, typer.Option(metavar="TIME", help="Stored then or later: milliseconds, or ISO 8601.")
    ] = None,
    until: Annotated[Text, typer.Option(metavar="TIME", help="Stored before that.")] = None,
    limit: Annotated[
        Number, typer.Option(metavar="N", help="How many records at most.  [default: 100]")
    ] = None,
    body_bytes: Annotated[
        Number, typer.Option(metavar="N", help="How much of each body.  [default: 1024]")
    ] = None,
    hexadecimal: Annotated[bool, typer.Option("--hex", help="Bodies in hexadecimal.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="A line of JSON each.")] = False,
) -> int:
    """Print records of the log."""
    from wakelog.audit.record_dump import Selection
    from wakelog.cli.log_settings import store_config
    from wakelog.cli.log_text import BODY_BYTES_SHOWN_MAX, record_json, record_line
    from wakelog.cli.log_work import records_of

    if (limit or 0) < 0 or (body_bytes or 0) < 0:
        raise PlanRefused("a count below zero", "Give --limit and --body-bytes from 0 on.")
    selection = Selection(
        physical_offset=offset,
        topic=topic,
        queue_id=queue,
        queue_offset=queue_offset,
        key=key,
        since_ms=_moment_ms("--since", since),
        until_ms=_moment_ms("--until", until),
    )
    settled = store_config(store, config, settings or (), takes_log_alone=True)
    body_bytes_max = BODY_BYTES_SHOWN_MAX if body_bytes is None else body_bytes
    text = record_json if as_json else record_line
    count, count_max = 0, LIMIT_DEFAULT if limit is None else limit
    for record in itertools.islice(records_of(settled, selection, _tell_passed_over), count_max):
        count += 1
        print(text(record, hexadecimal=hexadecimal, body_bytes_max=body_bytes_max))
    if limit is None and count == LIMIT_DEFAULT:
        _note(f"ended at {count} records: --limit shows more")
    if count == 0:
        _note("no record is selected")
    return 0


def _moment_ms(option: str, text: str | None) -> int | None:
    from wakelog.spark.option_texts import read_moment_ms

    try:
        return None if text is None else read_moment_ms(text)
    except ValueError as error:
        raise PlanRefused(f"{option} {text} is no time", f"Give {error}.") from None


def _tell_passed_over(stretch: BadStretch) -> None:
    _note(_passed_over(stretch))


def _passed_over(stretch: BadStretch) -> str:
    return f"passed over  {stretch.begin} to {stretch.end}: {stretch.reason}"


def _note(line: str) -> None:
    """Say something beside what was asked for, which may be piped on."""
    print(line, file=sys.stderr)


@log.command(short_help="Make queues and index from the log.")
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

    settled = store_config(store, config, settings or (), takes_log_alone=into is not None)
    moves = _Moves(is_told=not as_json)
    if into is not None:
        found = rebuild_into(settled, into, show_progress=not as_json)
    else:
        found = rebuild_store(settled, moves.add, show_progress=not as_json)
    if as_json:
        print(
            json.dumps(
                {"records": found.records_count, "begin": found.begin, "end": found.end}
                | {"missing": [list(gap) for gap in found.missing]}
                | {"badStretches": [list(stretch) for stretch in found.bad_stretches]}
                | {"moves": moves.done}
            )
        )
        return 0
    moves.tell_undo()
    for begin, end in found.missing:
        print(f"missing  {begin} to {end}: no segments, passed over")
    for stretch in found.bad_stretches:
        print(_passed_over(stretch))
    print(f"rebuilt: {found.records_count} records from {found.begin} to {found.end}")
    return 0


@log.command(short_help="Put a damaged store right; nothing is deleted.")
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
    moves = _Moves(is_told=not as_json)
    report = repair_now(settled, moves.add, scratch=scratch, show_progress=not as_json)
    if as_json:
        done = {
            "quarantined": [piece._asdict() for piece in report.pieces],
            "moves": moves.done,
        }
        print(json.dumps(done | {"after": json.loads(report_json(report.after))}))
    else:
        moves.tell_undo()
        for piece in report.pieces:
            print(f"cut    {piece.size_bytes} bytes at {piece.physical_offset} -> {piece.path}")
        if report.pieces:
            print("undo   write a file back into its segment, at the offset less the segment's")
        print("\n".join(report_lines(report.after)))
    return 0 if report.after.findings.is_sound else FAILED


class _Moves:
    """Renames that a command has done, each told at once: what follows may fail."""

    def __init__(self, *, is_told: bool) -> None:
        self._is_told = is_told
        self.done: list[list[str]] = []

    def add(self, moves: Sequence[tuple[str, str]]) -> None:
        for source, target in moves:
            self.done.append([source, target])
            if self._is_told:
                print(f"moved  {source} -> {target}", flush=True)

    def tell_undo(self) -> None:
        if self.done:
            print("undo   the same moves, last first, the other way round, while no broker runs")
