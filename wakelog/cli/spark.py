"""`wakelog spark`: jobs over whole logs, on this machine or, by spark-submit, on a cluster.

The jobs are in `wakelog/spark/jobs/`. A command imports its job and Spark when it runs.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from posixpath import abspath, expanduser
from typing import TYPE_CHECKING, Any, NamedTuple

from wakelog.actors.errors import NotPossible
from wakelog.cli.log import passed_over
from wakelog.cli.options import (
    CONFIG,
    LIMIT_DEFAULT,
    OUTPUT,
    SCRATCH,
    SET,
    OutputForm,
    Pair,
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


STORE = option("DIR", "A store, or a folder of commit-log files.")
STORES = option("DIR", "A store, or several with commas.", "--store")
OPTIONS = pairs("option", "An option of the source; repeat.")
EVERY = option("INTERVAL", "Of a row, as '10 minutes'.", default="1 hour")
GROUP = option("NAME", "Of this group alone.", default="")
LIMIT = option("N", "How many rows at most.", minimum=1, default=LIMIT_DEFAULT)

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


class JobRun(NamedTuple):
    """Where a job runs, and what it puts out."""

    output: OutputForm = OUTPUT
    master: Text = option("URL", "Spark's master.  [default: all cores of this machine]")
    confs: list[Pair] | None = pairs("conf", "A setting of Spark's; repeat.")

    @property
    def as_json(self) -> bool:
        """Whether objects are put out."""
        return self.output == "json"

    @contextmanager
    def session(
        self, store: str = "", options: Sequence[Pair] | None = None
    ) -> "Iterator[SparkSession]":
        """Yield a session; stores that cannot be read are refused before it takes its seconds."""
        from wakelog.spark.jobs.run import explained
        from wakelog.spark.session import job_session
        from wakelog.spark.stores import find_stores

        if store and not any(key.lower() in ("nameserver", "readmode") for key, _ in options or ()):
            find_stores(FileSystem(), store)
        # Progress lines overwrite each other, which only a terminal can show.
        shows = {"spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower()}
        opened = job_session(self.master, SETTINGS | shows | dict(self.confs or ()))
        with ExitStack() as stack:
            with unbroken():  # also removes Spark's handler, which calls Java within another call
                session = stack.enter_context(opened)
            with explained():
                yield session

    def table(
        self,
        make: "Callable[..., DataFrame]",
        limit: int,
        store: str,
        options: Sequence[Pair] | None,
        **more: Any,
    ) -> None:
        """Put out a table of stores."""
        from wakelog.cli.spark_tables import print_table

        with self.session(store, options) as session:
            found = make(session, store, options=dict(options or ()), **more)
            if not print_table(found, limit, as_json=self.as_json) and not self.as_json:
                print("there is nothing to show", file=sys.stderr)

    def report(self, report: Any, *lines: str) -> None:
        """Print the lines, or one line of JSON with the fields of the report."""
        from wakelog.cli.output import camel

        fields = {camel(name.removesuffix("_count")): x for name, x in report._asdict().items()}
        print(json.dumps(fields) if self.as_json else "\n".join(lines))


spark = program.group("spark", "Jobs over whole logs, and reports of traffic.", JobRun)


@spark.command()
def script() -> None:
    """Print the path of the program for spark-submit."""
    print(FOLDER / "spark_job.py")


@spark.command()
def rebuild(
    run: JobRun,
    store: str = STORE,
    into: str = option("DIR", "A new folder."),
    config: Text = CONFIG,
    settings: list[str] | None = SET,
) -> None:
    """Make queues and index from the log alone.

    There is one task for each segment.
    """
    from wakelog.cli.log_settings import store_config
    from wakelog.spark.jobs.rebuild import rebuild as rebuild_now

    resolved = store_config(store, config, settings or (), takes_log_alone=True)
    with run.session() as session:
        found = rebuild_now(session, resolved, into)
    run.report(
        found,
        *map(passed_over, found.bad_stretches),
        f"rebuilt: {found.records_count} records from {found.begin} to {found.end}, "
        f"{found.queues_count} queues, {found.keys_count} keys in {found.index_files_count} files",
    )


@spark.command()
def audit(
    run: JobRun,
    store: str = STORE,
    config: Text = CONFIG,
    settings: list[str] | None = SET,
    scratch: Text = SCRATCH,
    limit: int = LIMIT,
) -> int:
    """Check a log, its queues and its index.

    It lists damage, and exits with 1 if there is any.
    """
    from wakelog.cli.log_settings import store_config
    from wakelog.cli.spark_tables import print_table
    from wakelog.spark.jobs.audit import audit as audit_now

    resolved = store_config(store, config, settings or (), takes_log_alone=True, needs_index=True)
    with run.session() as session:
        place = None if scratch is None else abspath(expanduser(scratch))
        findings = audit_now(session, resolved, scratch=place).persist()
        print_table(findings, limit, as_json=run.as_json)
        counts = {
            row.severity: row["count"] for row in findings.groupBy("severity").count().collect()
        }
        findings.unpersist()
    damages, notices = counts.get("damage", 0), counts.get("notice", 0)
    if not run.as_json:
        sound = "damaged" if damages else "sound"
        print(f"{sound}: {damages} findings of damage, {notices} notices")
    return FAILED if damages else 0


@spark.command()
def export(
    run: JobRun,
    store: str = STORES,
    into: str = option("DIR", "New, or of earlier runs.", "--into"),
    columns: Text = option("NAMES", "Columns, with commas.  [default: all]"),
    options: list[Pair] | None = OPTIONS,
) -> None:
    """Add the new messages of a log to Parquet files.

    There is a folder for each topic and day.
    """
    from wakelog.spark.jobs.export import export as export_now

    names = [name for name in (columns or "").split(",") if name.strip()]
    with run.session(store, options) as session:
        found = export_now(session, store, into, columns=names, options=dict(options or ()))
    run.report(
        found,
        f"exported: {found.rows_count} rows in {found.files_count} files of "
        f"{found.batches_count} batches into {found.target}",
    )


@spark.command()
def lag(
    run: JobRun,
    store: str = STORES,
    group: str = GROUP,
    every: str = EVERY,
    options: list[Pair] | None = OPTIONS,
    limit: int = LIMIT,
) -> None:
    """Count the messages that groups have not consumed.

    There is a row for each time of storing.
    """
    from wakelog.spark.jobs.traffic import lag as table

    run.table(table, limit, store, options, group=group, every=every)


@spark.command()
def latency(
    run: JobRun,
    store: str = STORES,
    group: str = GROUP,
    every: str = EVERY,
    options: list[Pair] | None = OPTIONS,
    limit: int = LIMIT,
) -> None:
    """Show how long messages took from their producer to the log.

    There is a row for each topic and time.
    """
    from wakelog.spark.jobs.traffic import latency as table

    run.table(table, limit, store, options, group=group, every=every)


@spark.command()
def hotkeys(
    run: JobRun, store: str = STORES, options: list[Pair] | None = OPTIONS, limit: int = LIMIT
) -> None:
    """List the keys with the most messages."""
    from wakelog.spark.jobs.traffic import hotkeys as table

    run.table(table, limit, store, options)


@spark.command()
def report(
    run: JobRun,
    store: str = STORES,
    into: str = option("FILE", "The page, which is replaced."),
    options: list[Pair] | None = OPTIONS,
) -> None:
    """Draw a log into one HTML file that opens offline.

    It has rates, latency, sizes, lag and hot keys.
    """
    from wakelog.spark.jobs.report import report as report_now

    with run.session(store, options) as session:
        found = report_now(session, store, into, options=dict(options or ()))
    run.report(
        found,
        f"drawn: {found.messages_count} messages of {found.topics_count} topics, "
        f"{found.groups_count} groups, into {found.path}",
    )


@spark.command()
def deadletters(
    run: JobRun,
    store: str = STORES,
    retries: int = option("N", "Retries before a message is a dead letter.", default=16),
    again: bool = switch("Send them again instead; needs --name-server.", "--resend"),
    name_server: str = option("HOST:PORT", "Where to send to.", "--name-server", "-n", default=""),
    group: str = GROUP,
    to: str = option("WHERE", "origin: their topic; retry: their group.", default="origin"),
    options: list[Pair] | None = pairs(
        "option", "An option of the source, with --resend of the sink; repeat."
    ),
    limit: int = LIMIT,
) -> None:
    """Count dead letters, or send them again.

    They are counted by topic of origin and reason.
    """
    from wakelog.spark.jobs.resend import resend
    from wakelog.spark.jobs.traffic import deadletters as table

    if again and not name_server:
        raise NotPossible("--resend needs an address", "Give --name-server, as 127.0.0.1:9876.")
    if not again and (name_server or to != "origin"):
        raise NotPossible("--to and --name-server are of --resend", "Give it too, or neither.")
    if not again:
        run.table(table, limit, store, options, group=group, retries_max=retries)
        return
    with run.session(store, options) as session:
        given = dict(options or ())
        sent = resend(session, store, name_server, group=group, to=to, options=given)
    missing = sent.without_origin_count
    left_out = [f"left out: {missing} without RETRY_TOPIC"] if missing else []
    run.report(sent, f"sent: {sent.sent_count} messages", *left_out)


@spark.command()
def compare(
    run: JobRun,
    store: str = STORES,
    other: str = option("DIR", "The other side.", "--with", default=""),
    name_server: str = option(
        "HOST:PORT", "Or live brokers, found by this.", "--name-server", "-n", default=""
    ),
    options: list[Pair] | None = OPTIONS,
    limit: int = LIMIT,
) -> int:
    """List messages that only one of two logs has.

    They are listed by queue. It exits with 1 if there are any.
    """
    from wakelog.cli.spark_tables import print_table
    from wakelog.spark.jobs.compare import compare as compare_now

    with run.session(store, options) as session:
        given = dict(options or ())
        table = compare_now(session, store, other, name_server=name_server, options=given)
        has_rows = print_table(table, limit, as_json=run.as_json)
    if not has_rows and not run.as_json:
        print("equal")
    return FAILED if has_rows else 0
