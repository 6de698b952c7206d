"""`wakelog spark`: jobs over whole logs, on this machine or, by spark-submit, on a cluster.

The jobs are in `wakelog/spark/jobs/`. A command imports its job and Spark when it runs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from posixpath import abspath, expanduser
from typing import TYPE_CHECKING, Annotated, Any

from wakelog.actors.errors import NotPossible
from wakelog.cli.log import passed_over
from wakelog.cli.options import (
    LIMIT_DEFAULT,
    Config,
    OutputForm,
    Pair,
    Scratch,
    Settings,
    Text,
    option,
    pairs,
    switch,
)
from wakelog.cli.program import FAILED
from wakelog.cli.root import program
from wakelog.cli.stop_signals import unbroken
from wakelog.storage.file_system import FileSystem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


Store = Annotated[str, option("DIR", "A store, or a folder of commit-log files.")]
Stores = Annotated[str, option("DIR", "A store, or several with commas.", "--store")]
Into = Annotated[str, option("DIR", "A new folder.")]
Export = Annotated[str, option("DIR", "New, or of earlier runs.", "--into")]
Master = Annotated[Text, option("URL", "Spark's master.  [default: all cores of this machine]")]
Confs = Annotated[list[Pair] | None, pairs("conf", "A setting of Spark's; repeat.")]
Options = Annotated[list[Pair] | None, pairs("option", "An option of the source; repeat.")]
Columns = Annotated[Text, option("NAMES", "Columns, with commas.  [default: all]")]
Every = Annotated[str, option("INTERVAL", "Of a row, as '10 minutes'.")]
Group = Annotated[str, option("NAME", "Of this group alone.")]
Limit = Annotated[int, option("N", "How many rows at most.", minimum=1)]

FOLDER = Path(__file__).parent
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": f'"-Dlog4j2.configurationFile={FOLDER}/log4j2.properties"',
    # Otherwise a cached table has 200 tasks a shuffle: minutes for three messages.
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",
    # This rule cancels the tasks of a join whose other side is empty; their Python logs errors.
    "spark.sql.adaptive.optimizer.excludedRules": (
        "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"
    ),
}
"""Settings of the sessions of these commands; `--conf` replaces them."""

spark = program.group("spark", "Jobs over whole logs, and reports of traffic.")


@spark.command()
def script() -> None:
    """Print the path of the program for spark-submit."""
    print(FOLDER / "spark_job.py")


@spark.command()
def rebuild(
    store: Store,
    into: Into,
    config: Config = None,
    settings: Settings = None,
    output: OutputForm = "table",
    master: Master = None,
    confs: Confs = None,
) -> None:
    """Make queues and index from the log alone.

    There is one task for each segment.
    """
    from wakelog.cli.log_settings import store_config
    from wakelog.spark.jobs.rebuild import rebuild as rebuild_now

    settled = store_config(store, config, settings or (), takes_log_alone=True)
    with _session(master, confs) as session:
        found = rebuild_now(session, settled, into)
    _print_report(
        found,
        output == "json",
        *map(passed_over, found.bad_stretches),
        f"rebuilt: {found.records_count} records from {found.begin} to {found.end}, "
        f"{found.queues_count} queues, {found.keys_count} keys in {found.index_files_count} files",
    )


@spark.command()
def audit(
    store: Store,
    config: Config = None,
    settings: Settings = None,
    scratch: Scratch = None,
    limit: Limit = LIMIT_DEFAULT,
    output: OutputForm = "table",
    master: Master = None,
    confs: Confs = None,
) -> int:
    """Check a log, its queues and its index.

    It lists damage, and exits with 1 if there is any.
    """
    from wakelog.cli.log_settings import store_config
    from wakelog.cli.spark_tables import print_table
    from wakelog.spark.jobs.audit import audit as audit_now

    as_json = output == "json"
    settled = store_config(store, config, settings or (), takes_log_alone=True, needs_index=True)
    with _session(master, confs) as session:
        place = None if scratch is None else abspath(expanduser(scratch))
        findings = audit_now(session, settled, scratch=place).persist()
        print_table(findings, limit, as_json=as_json)
        counts = {
            row.severity: row["count"] for row in findings.groupBy("severity").count().collect()
        }
        findings.unpersist()
    damages, notices = counts.get("damage", 0), counts.get("notice", 0)
    if not as_json:
        sound = "damaged" if damages else "sound"
        print(f"{sound}: {damages} findings of damage, {notices} notices")
    return FAILED if damages else 0


@spark.command()
def export(
    store: Stores,
    into: Export,
    columns: Columns = None,
    options: Options = None,
    output: OutputForm = "table",
    master: Master = None,
    confs: Confs = None,
) -> None:
    """Add the new messages of a log to Parquet files.

    There is a folder for each topic and day.
    """
    from wakelog.spark.jobs.export import export as export_now

    names = [name for name in (columns or "").split(",") if name.strip()]
    with _session(master, confs, store, options) as session:
        found = export_now(session, store, into, columns=names, options=dict(options or ()))
    _print_report(
        found,
        output == "json",
        f"exported: {found.rows_count} rows in {found.files_count} files of "
        f"{found.batches_count} batches into {found.target}",
    )


@spark.command()
def lag(
    store: Stores,
    group: Group = "",
    every: Every = "1 hour",
    options: Options = None,
    limit: Limit = LIMIT_DEFAULT,
    output: OutputForm = "table",
    master: Master = None,
    confs: Confs = None,
) -> None:
    """Count the messages that groups have not consumed.

    There is a row for each time of storing.
    """
    from wakelog.spark.jobs.traffic import lag as table

    with _session(master, confs, store, options) as session:
        found = table(session, store, group=group, every=every, options=dict(options or ()))
        _print(found, limit, output == "json")


@spark.command()
def latency(
    store: Stores,
    group: Group = "",
    every: Every = "1 hour",
    options: Options = None,
    limit: Limit = LIMIT_DEFAULT,
    output: OutputForm = "table",
    master: Master = None,
    confs: Confs = None,
) -> None:
    """Show how long messages took from their producer to the log.

    There is a row for each topic and time.
    """
    from wakelog.spark.jobs.traffic import latency as table

    with _session(master, confs, store, options) as session:
        found = table(session, store, group=group, every=every, options=dict(options or ()))
        _print(found, limit, output == "json")


@spark.command()
def hotkeys(
    store: Stores,
    options: Options = None,
    limit: Limit = LIMIT_DEFAULT,
    output: OutputForm = "table",
    master: Master = None,
    confs: Confs = None,
) -> None:
    """List the keys with the most messages."""
    from wakelog.spark.jobs.traffic import hotkeys as table

    with _session(master, confs, store, options) as session:
        _print(table(session, store, options=dict(options or ())), limit, output == "json")


@spark.command()
def report(
    store: Stores,
    into: Annotated[str, option("FILE", "The page, which is replaced.")],
    options: Options = None,
    output: OutputForm = "table",
    master: Master = None,
    confs: Confs = None,
) -> None:
    """Draw a log into one HTML file that opens offline.

    It has rates, latency, sizes, lag and hot keys.
    """
    from wakelog.spark.jobs.report import report as report_now

    with _session(master, confs, store, options) as session:
        found = report_now(session, store, into, options=dict(options or ()))
    _print_report(
        found,
        output == "json",
        f"drawn: {found.messages_count} messages of {found.topics_count} topics, "
        f"{found.groups_count} groups, into {found.path}",
    )


@spark.command()
def deadletters(
    store: Stores,
    retries: Annotated[int, option("N", "Retries before a message is a dead letter.")] = 16,
    again: Annotated[
        bool, switch("Send them again instead; needs --name-server.", "--resend")
    ] = False,
    name_server: Annotated[
        str, option("HOST:PORT", "Where to send to.", "--name-server", "-n")
    ] = "",
    group: Group = "",
    to: Annotated[str, option("WHERE", "origin: their topic; retry: their group.")] = "origin",
    options: Annotated[
        list[Pair] | None,
        pairs("option", "An option of the source, with --resend of the sink; repeat."),
    ] = None,
    limit: Limit = LIMIT_DEFAULT,
    output: OutputForm = "table",
    master: Master = None,
    confs: Confs = None,
) -> None:
    """Count dead letters, or send them again.

    They are counted by topic of origin and reason.
    """
    from wakelog.spark.jobs.resend import resend
    from wakelog.spark.jobs.traffic import deadletters as table

    as_json = output == "json"
    if again and not name_server:
        raise NotPossible("--resend needs an address", "Give --name-server, as 127.0.0.1:9876.")
    if not again and (name_server or to != "origin"):
        raise NotPossible("--to and --name-server are of --resend", "Give it too, or neither.")
    given = dict(options or ())
    with _session(master, confs, store, options) as session:
        if not again:
            found = table(session, store, group=group, retries_max=retries, options=given)
            _print(found, limit, as_json)
            return
        sent = resend(session, store, name_server, group=group, to=to, options=given)
    missing = sent.without_origin_count
    left_out = [f"left out: {missing} without RETRY_TOPIC"] if missing else []
    _print_report(sent, as_json, f"sent: {sent.sent_count} messages", *left_out)


@spark.command()
def compare(
    store: Stores,
    other: Annotated[str, option("DIR", "The other side.", "--with")] = "",
    name_server: Annotated[
        str, option("HOST:PORT", "Or live brokers, found by this.", "--name-server", "-n")
    ] = "",
    options: Options = None,
    limit: Limit = LIMIT_DEFAULT,
    output: OutputForm = "table",
    master: Master = None,
    confs: Confs = None,
) -> int:
    """List messages that only one of two logs has.

    They are listed by queue. It exits with 1 if there are any.
    """
    from wakelog.cli.spark_tables import print_table
    from wakelog.spark.jobs.compare import compare as compare_now

    as_json = output == "json"
    with _session(master, confs, store, options) as session:
        given = dict(options or ())
        table = compare_now(session, store, other, name_server=name_server, options=given)
        has_rows = print_table(table, limit, as_json=as_json)
    if not has_rows and not as_json:
        print("equal")
    return FAILED if has_rows else 0


def _print(table: DataFrame, limit: int, as_json: bool) -> None:
    from wakelog.cli.spark_tables import print_table

    if not print_table(table, limit, as_json=as_json) and not as_json:
        print("there is nothing to show", file=sys.stderr)


@contextmanager
def _session(
    master: Text,
    confs: list[Pair] | None,
    store: str = "",
    options: Sequence[Pair] | None = None,
) -> Iterator[SparkSession]:
    """Yield a session; stores that cannot be read are refused before it takes its seconds."""
    from wakelog.spark.jobs.run import explained
    from wakelog.spark.session import job_session
    from wakelog.spark.stores import find_stores

    if store and not any(key.lower() in ("nameserver", "readmode") for key, _ in options or ()):
        find_stores(FileSystem(), store)
    # Progress lines overwrite each other, which only a terminal can show.
    shows = {"spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower()}
    opened = job_session(master, SETTINGS | shows | dict(confs or ()))
    with ExitStack() as stack:
        with unbroken():  # also removes Spark's handler, which calls Java within another call
            session = stack.enter_context(opened)
        with explained():
            yield session


def _print_report(report: Any, as_json: bool, *lines: str) -> None:
    """Print the lines, or one line of JSON with the fields of the report."""
    from wakelog.cli.log_text import camel

    fields = {camel(name.removesuffix("_count")): x for name, x in report._asdict().items()}
    print(json.dumps(fields) if as_json else "\n".join(lines))
