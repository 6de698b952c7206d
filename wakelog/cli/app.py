"""The commands and their options, and the exit code of each command line.

typer parses and prints the help. A mistake in a command line is reported by `failures`, like every
other error.
"""

import contextlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import typer

from wakelog.actors.deploy.deployment import make_deployment
from wakelog.actors.deploy.plan import UpOptions
from wakelog.actors.errors import PlanRefused
from wakelog.actors.transport.service_plan import Transport
from wakelog.cli.admin.table import run_admin
from wakelog.cli.failures import Failure, explain
from wakelog.cli.hello import greet
from wakelog.cli.log import log
from wakelog.cli.options import Number, Settings, Store, Text, option
from wakelog.cli.program import version
from wakelog.cli.spark import spark
from wakelog.cli.stop_signals import SIGNALLED, StopAsked, StopSignals
from wakelog.cli.up import DeploymentFactory, run_up
from wakelog.network.tls_properties import DEFAULT_CONFIG_PATH

VersionFlag = Annotated[bool, typer.Option("--version", help="Show the version and exit.")]

NameServerPort = Annotated[
    Number,
    option("PORT", "Port of the name server; 0 starts none.  [default: 9876]", "--namesrv-port"),
]
BrokerPort = Annotated[
    Number, option("PORT", "Port of the first broker; PORT-2 and PORT+1 follow.  [default: 10911]")
]
Bind = Annotated[str, option("IP", "Address to listen on; 0.0.0.0 for all.")]
Advertise = Annotated[Text, option("IP", "Address that clients get.  [default: --bind]")]
Brokers = Annotated[int, option("N", "How many brokers; ports 20 apart, stores inside DIR.")]
Config = Annotated[Text, option("FILE", "RocketMQ's broker.conf; flags beat it.")]
Progress = Annotated[Transport, typer.Option(help="How progress travels between actors.")]
Local = Annotated[bool, typer.Option("--local", help="Everything in this process, without Ray.")]
PlainRay = Annotated[
    bool, typer.Option("--plain-ray", help="Start Ray by ray.init, some seconds slower.")
]
MetricsPort = Annotated[
    Number, option("PORT", "Port of /metrics; 0 for none.  [default: 5557, or the next free one]")
]
NameServer = Annotated[str, typer.Argument(metavar="HOST:PORT")]
WithTls = Annotated[bool, typer.Option("--tls", help="Connect with TLS.")]
TlsConfig = Annotated[
    Text, option("FILE", "A tls.properties; implies --tls.  [default: RocketMQ's]")
]
Topic = Annotated[str, option("NAME", "Topic to send to; made if need be.")]

app = typer.Typer(
    name="wakelog",
    help="A RocketMQ 4.9.3 broker and name server on Ray actors.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(log)
app.add_typer(spark)


class Process(NamedTuple):
    """The signals and the factory that a command gets by its context."""

    signals: StopSignals
    make: DeploymentFactory


INTERRUPTED = SIGNALLED + signal.SIGINT
STOPS_IN_ORDER = frozenset({"up"})
"""A signal asks these commands to stop, and interrupts the others."""


@app.callback(invoke_without_command=True)
def wakelog(context: typer.Context, show_version: VersionFlag = False) -> None:
    """Print the version, or the help if there is no command."""
    if show_version:
        print(f"wakelog {version()}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit
    if context.invoked_subcommand not in STOPS_IN_ORDER:
        process: Process = context.obj
        process.signals.interrupt()


@app.command()
def up(
    context: typer.Context,
    store: Store = None,
    name_server_port: NameServerPort = None,
    broker_port: BrokerPort = None,
    bind: Bind = "127.0.0.1",
    advertise: Advertise = None,
    brokers: Brokers = 1,
    config: Config = None,
    settings: Settings = None,
    transport: Progress = Transport.NOTIFICATIONS,
    local: Local = False,
    plain_ray: PlainRay = False,
    metrics_port: MetricsPort = None,
) -> int:
    """Start a name server and a broker here, show rates, stop in order."""
    options = UpOptions(
        store=store,
        name_server_port=name_server_port,
        broker_port=broker_port,
        bind=bind,
        advertise=advertise,
        broker_count=brokers,
        config_path=config,
        settings=tuple(settings or ()),
        transport=transport,
        is_local=local,
        plain_ray=plain_ray,
        metrics_port=metrics_port,
    )
    process: Process = context.obj
    return run_up(options, process.signals, process.make)


@app.command()
def hello(
    name_server: NameServer = "127.0.0.1:9876",
    topic: Topic = "hello",
    tls: WithTls = False,
    tls_config: TlsConfig = None,
) -> None:
    """Send one message through a cluster and fetch it back."""
    if tls and tls_config is None:
        tls_config = DEFAULT_CONFIG_PATH if os.path.exists(DEFAULT_CONFIG_PATH) else ""
    greet(name_server, topic, print, tls_config)


@app.command(
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def admin(context: typer.Context) -> None:
    """Run a command of mqadmin: wakelog admin COMMAND -n HOST:PORT [FLAGS]."""
    run_admin(context.args, print)


def run(
    arguments: Sequence[str], signals: StopSignals, make: DeploymentFactory = make_deployment
) -> int:
    """Run one command line and return the exit code."""
    process = Process(signals, make)
    _show_every_character()
    try:
        outcome = app(arguments, prog_name="wakelog", standalone_mode=False, obj=process)
        if sys.stdout is not None:
            sys.stdout.flush()  # here an error can still be reported
        if outcome == INTERRUPTED:  # what typer makes of Spark's own KeyboardInterrupt
            raise StopAsked(signal.SIGINT)
        return outcome if isinstance(outcome, int) else 0
    except StopAsked as stop:
        failure = Failure("interrupted", "Run the same command to start again.", stop.exit_code)
    except SystemExit:  # typer's answer to a pipe without a reader: `| head` has what it wants
        return SIGNALLED + signal.SIGPIPE
    except typer.TyperException as error:
        # A mistake in the command line, which typer would explain on four lines.
        failure = explain(_misuse(error))
    except Exception as error:
        failure = explain(error)
        if isinstance(error, OSError):
            _drop_output()
    print(failure.line, file=sys.stderr, flush=True)
    return failure.exit_code


def _show_every_character() -> None:
    """Write a character that a terminal or a file cannot show as an escape."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Drop what Python would write, and fail to write, when it ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _misuse(error: typer.TyperException) -> PlanRefused:
    """Split typer's message into cause and remedy."""
    text = getattr(error, "format_message", error.__str__)()
    cause, _, hint = text.removesuffix(".").partition(". ")
    command = getattr(getattr(error, "ctx", None), "command_path", "wakelog")
    return PlanRefused(cause[:1].lower() + cause[1:], hint or f"See {command} --help.")
