"""The commands and their options, and the exit code of each command line.

Each command imports what it needs when it runs, so that the help comes at once. typer parses and
prints the help. A mistake in a command line is reported by `failures`, like every
other error.
"""

import contextlib
import os
import re
import signal
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer
from typer.core import TyperCommand

from wakelog.actors.errors import NotPossible
from wakelog.cli.cluster.commands import add_commands
from wakelog.cli.log import log
from wakelog.cli.options import Number, Settings, Store, Text, option
from wakelog.cli.program import SIGNALLED
from wakelog.cli.spark import spark
from wakelog.cli.standard_streams import show_every_character, words_not_utf_8
from wakelog.cli.stop_signals import StopAsked, StopSignals
from wakelog.telemetry.build import version

if TYPE_CHECKING:
    from wakelog.cli.up import DeploymentFactory

VersionFlag = Annotated[bool, typer.Option("--version", help="Show the version and exit.")]

NameServerPort = Annotated[
    Number,
    option("PORT", "Port of the name server; 0 starts none.  [default: 9876]", "--namesrv-port"),
]
BrokerPort = Annotated[
    Number,
    option(
        "PORT",
        "Port of the first broker; PORT-2 and PORT+1 follow; 0 takes free ones.  [default: 10911]",
    ),
]
Bind = Annotated[str, option("IP", "Address to listen on; 0.0.0.0 for all.")]
Open = Annotated[bool, typer.Option("--open", help="Let other hosts in without access control.")]
Advertise = Annotated[Text, option("IP", "Address that clients get.  [default: --bind]")]
Brokers = Annotated[int, option("N", "How many brokers; ports 20 apart, stores inside DIR.")]
Replicas = Annotated[int, option("N", "Of each broker; the first is master, and N-1 copy its log.")]
Config = Annotated[Text, option("FILE", "RocketMQ's broker.conf; flags beat it.")]
Progress = Annotated[
    Literal["notifications", "references"],
    typer.Option(help="How progress travels between actors."),
]
NameServerStore = Annotated[
    Text, option("DIR", "Where its values and logs are kept.  [default: ~/namesrv]", "--store")
]
NameServerOwnPort = Annotated[Number, option("PORT", "Its port.  [default: 9876]", "--port")]
NameServerConf = Annotated[
    Text, option("FILE", "RocketMQ's namesrv.conf; flags beat it.", "--config")
]
Local = Annotated[bool, typer.Option("--local", help="Everything in this process, without Ray.")]
PlainRay = Annotated[
    bool, typer.Option("--plain-ray", help="Start Ray by ray.init, some seconds slower.")
]
MetricsPort = Annotated[
    Number, option("PORT", "Port of /metrics; 0 for none.  [default: 5557, or the next free one]")
]
ConsolePort = Annotated[
    Number, option("PORT", "Of the console; 0 for none.  [default: 8080, or the next free one]")
]
ConsoleAccount = Annotated[
    Text, option("FILE", "The console's account, both keys as in mqadmin's tools.yml.")
]

app = typer.Typer(
    name="wakelog",
    help="A RocketMQ 4.9.3 broker and name server on Ray actors.",
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(log)
app.add_typer(spark)


class Process(NamedTuple):
    """The signals and the factory that a command gets by its context."""

    signals: StopSignals
    make: "DeploymentFactory | None"


NEAR_ENOUGH = 0.8
"""How alike two options are that may be meant for each other; 1 is the same."""

_BAD_VALUE = re.compile(
    r"Invalid value for '([^']+)'(?: / '[^']+')*: (?:Value error, )?(.*)", re.DOTALL
)
_KINDS = {
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "exceeded maximum size": "a number of fewer digits",
    "greater than or equal to": "a number of {} or more",
    "less than or equal to": "a number of {} or less",
}
"""By what typer says of a number, what is said here; {} is the last word there."""

INTERRUPTED = SIGNALLED + signal.SIGINT
STOPS_IN_ORDER = frozenset({"up", "nameserver"})
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
    is_open: Open = False,
    advertise: Advertise = None,
    brokers: Brokers = 1,
    replicas: Replicas = 1,
    config: Config = None,
    settings: Settings = None,
    transport: Progress = "notifications",
    local: Local = False,
    plain_ray: PlainRay = False,
    metrics_port: MetricsPort = None,
    console_port: ConsolePort = None,
    console_account: ConsoleAccount = None,
) -> int:
    """Start a name server and a broker, show rates, stop in order."""
    from wakelog.actors.deploy.plan import UpOptions
    from wakelog.actors.transport.service_plan import Transport
    from wakelog.cli.up import run_up

    options = UpOptions(
        store=store,
        name_server_port=name_server_port,
        broker_port=broker_port,
        bind=bind,
        open=is_open,
        advertise=advertise,
        broker_count=brokers,
        replica_count=replicas,
        config_path=config,
        settings=tuple(settings or ()),
        transport=Transport(transport),
        is_local=local,
        plain_ray=plain_ray,
        metrics_port=metrics_port,
        console_port=console_port,
        console_account=console_account,
    )
    process: Process = context.obj
    return run_up(options, process.signals, process.make)


@app.command("nameserver")
def name_server(
    context: typer.Context,
    store: NameServerStore = None,
    port: NameServerOwnPort = None,
    bind: Bind = "127.0.0.1",
    advertise: Advertise = None,
    config: NameServerConf = None,
    settings: Settings = None,
    metrics_port: MetricsPort = None,
) -> int:
    """Start a name server alone, in this process."""
    from wakelog.actors.deploy.plan import NameServerOptions
    from wakelog.cli.up import run_name_server

    options = NameServerOptions(
        store=store,
        port=port,
        bind=bind,
        advertise=advertise,
        config_path=config,
        settings=tuple(settings or ()),
        metrics_port=metrics_port,
    )
    process: Process = context.obj
    return run_name_server(options, process.signals)


class AdminCommand(TyperCommand):
    """A command whose words are those of mqadmin; typer does not know them."""

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Return what may follow the words of a command line."""
        from wakelog.cli.admin.completion import choices

        return list(choices(ctx.args, incomplete))


@app.command(
    cls=AdminCommand,
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def admin(context: typer.Context) -> None:
    """Run a command of mqadmin, without a JVM."""
    from wakelog.cli.admin.table import run_admin

    run_admin(context.args, print)


add_commands(app)


def run(
    arguments: Sequence[str], signals: StopSignals, make: "DeploymentFactory | None" = None
) -> int:
    """Run one command line and return the exit code."""
    process = Process(signals, make)
    show_every_character()
    try:
        _refuse_not_utf_8(arguments)
        outcome = app(arguments, prog_name="wakelog", standalone_mode=False, obj=process)
        sys.stdout.flush()  # here an error can still be reported
        if outcome == INTERRUPTED:  # what typer makes of Spark's own KeyboardInterrupt
            raise StopAsked(signal.SIGINT)
        return outcome if isinstance(outcome, int) else 0
    except (StopAsked, BaseExceptionGroup) as error:
        return _interrupted(error)
    except SystemExit as end:
        if not end.code:  # a shell has got its completions
            return 0
        # typer's answer to a pipe without a reader: `| head` has what it wants
        return SIGNALLED + signal.SIGPIPE
    except typer.TyperException as error:
        # A mistake in the command line, which typer would explain on four lines.
        return _fail(_misuse(error, arguments))
    except Exception as error:
        if isinstance(error, OSError):
            _drop_output()
        return _fail(error)


def _interrupted(error: BaseException) -> int:
    """Say that a signal came; the task that it stopped may be one of a group."""
    if isinstance(error, BaseExceptionGroup):
        error = error.split(StopAsked)[0] or error
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if not isinstance(error, StopAsked):
        return _fail(error)
    print("wakelog: interrupted. Run the same command to start again.", file=sys.stderr)
    return error.exit_code


def _fail(error: BaseException) -> int:
    from wakelog.cli.failures import explain

    failure = explain(error)
    print(failure.line, file=sys.stderr, flush=True)
    return failure.exit_code


def _refuse_not_utf_8(arguments: Sequence[str]) -> None:
    for word in words_not_utf_8(arguments):
        raise NotPossible(
            f"{word} on the command line is not UTF-8",
            "Give it in UTF-8; let the terminal use a locale such as C.UTF-8.",
        )


def _drop_output() -> None:
    """Drop what Python would write, and fail to write, when it ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _command_path(arguments: Sequence[str]) -> str:
    """Return the command that a command line names, as far as it names one."""
    commands, names = {"wakelog": typer.main.get_command(app)}, []
    for word in ("wakelog", *arguments):
        if word not in commands:
            break
        names.append(word)
        commands = getattr(commands[word], "commands", {})
    return " ".join(names)


def _misuse(error: typer.TyperException, arguments: Sequence[str]) -> NotPossible:
    """Split typer's message into cause and remedy, in words of our own where it has Python's."""
    text: str = getattr(error, "format_message", error.__str__)()
    cause, _, hint = text.removesuffix(".").partition(". ")
    remedy = f"See {_command_path(arguments)} --help."
    if hasattr(error, "possibilities"):
        name = str(getattr(error, "option_name", ""))
        near = get_close_matches(name, error.possibilities or (), 1, NEAR_ENOUGH)
        cause = f"there is no option {name}"
        remedy = f"Did you mean {near[0]}? {remedy}" if near else remedy
    elif (bad := _BAD_VALUE.fullmatch(cause)) is not None:
        kind = next((ours for theirs, ours in _KINDS.items() if theirs in bad[2]), None)
        last = bad[2].rpartition(" ")[2]
        cause = f"{bad[1]} needs {kind.format(last)}" if kind else f"{bad[1]}: {bad[2]}"
    return NotPossible(cause[:1].lower() + cause[1:], hint or remedy)
