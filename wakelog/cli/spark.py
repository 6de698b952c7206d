"""`wakelog spark`: jobs over whole logs, on this machine or, by spark-submit, on a cluster.

The functions are those of `wakelog/spark/jobs/`; they, and Spark, are imported when a command runs.
"""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from os.path import abspath, expanduser, isdir, join
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wakelog.actors.errors import PlanRefused
from wakelog.cli.failures import FAILED
from wakelog.cli.log import LIMIT_DEFAULT, AsJson, Config, Scratch, Settings
from wakelog.storage.config import StoreConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Text = str | None

Store = Annotated[
    str, typer.Option(metavar="DIR", help="Store directory, or a folder of commit-log files.")
]
Into = Annotated[str, typer.Option(metavar="DIR", help="A new folder.")]
Master = Annotated[
    Text, typer.Option(metavar="URL", help="Spark's master.  [default: all cores of this machine]")
]
Confs = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark's; repeat."),
]

Limit = Annotated[int, typer.Option(help="How many rows at most.")]

QUIET = {"spark.ui.enabled": "false", "spark.log.level": "ERROR"}

spark = typer.Typer(
    name="spark",
    help="Jobs over whole logs: rebuild, audit.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@spark.command()
def script() -> None:
    """Print the path of the program that spark-submit takes for these commands."""
    print(Path(__file__).parent / "submit" / "spark_job.py")


@spark.command()
def rebuild(
    store: Store,
    into: Into,
    config: Config = None,
    settings: Settings = None,
    as_json: AsJson = False,
    master: Master = None,
    confs: Confs = None,
) -> int:
    """Make queues and index from the log alone, a task a segment."""
    from wakelog.spark.jobs.rebuild import rebuild as rebuild_now

    settled = log_config(store, config, settings or [])
    with _session(master, confs) as session:
        found = rebuild_now(session, settled, into)
    if as_json:
        print(json.dumps(_named(found)))
        return 0
    for stretch in found.bad_stretches:
        print(f"passed over  {stretch.begin} to {stretch.end}: {stretch.reason}")
    print(
        f"rebuilt: {found.records_count} records from {found.begin} to {found.end}, "
        f"{found.queues_count} queues, {found.keys_count} keys in {found.index_files_count} files"
    )
    return 0


@spark.command()
def audit(
    store: Store,
    config: Config = None,
    settings: Settings = None,
    scratch: Scratch = None,
    limit: Limit = LIMIT_DEFAULT,
    as_json: AsJson = False,
    master: Master = None,
    confs: Confs = None,
) -> int:
    """Prove a log, its queues and index sound, or list what is wrong; exit code 1 if anything."""
    from wakelog.cli.spark_tables import table_lines
    from wakelog.spark.jobs.audit import audit as audit_now

    settled = log_config(store, config, settings or [])
    with _session(master, confs) as session:
        findings = audit_now(session, settled, scratch=scratch).persist()
        for line in table_lines(findings, limit, as_json=as_json):
            print(line)
        counts = {
            row.severity: row["count"] for row in findings.groupBy("severity").count().collect()
        }
        findings.unpersist()
    damages, notices = counts.get("damage", 0), counts.get("notice", 0)
    if not as_json:
        sound = "damaged" if damages else "sound"
        print(f"{sound}: {damages} findings of damage, {notices} notices")
    return FAILED if damages else 0


def log_config(store: str, config: Text, settings: list[str]) -> StoreConfig:
    """Return the configuration of a store, or of a folder that holds nothing but the log.

    Raises: PlanRefused, IllegalConfiguration; OSError for `config`.
    """
    from wakelog.cli.log_settings import store_config

    path = abspath(expanduser(store))
    names_log = any(setting.startswith("storePathCommitLog=") for setting in settings)
    if isdir(path) and not isdir(join(path, "commitlog")) and not names_log:
        settings = [*settings, f"storePathCommitLog={path}"]
    return store_config(path, config, settings)


def _session(master: Text, confs: list[str] | None) -> AbstractContextManager[SparkSession]:
    from wakelog.spark.session import job_session

    chosen = dict(QUIET)
    for conf in confs or ():
        key, separator, value = conf.partition("=")
        if not separator or not key:
            raise PlanRefused(f"--conf {conf!r} is no KEY=VALUE", "Give one setting of Spark's.")
        chosen[key] = value
    return job_session(master, chosen)


def _named(report: Any) -> dict[str, Any]:
    """Return a report's fields for JSON, in the spelling of a JSON document."""
    return {_spelled(name): value for name, value in report._asdict().items()}


def _spelled(name: str) -> str:
    first, *rest = name.removesuffix("_count").split("_")
    return first + "".join(word.capitalize() for word in rest)
