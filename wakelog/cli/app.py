"""What can be typed: the commands, their options, and from an error to the line a user reads.

typer parses and prints the help; what it would say about a mistake goes through `failures` like any
other error.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from wakelog.actors.deployment import make_deployment
from wakelog.actors.errors import PlanRefused
from wakelog.actors.plan import Transport, UpOptions
from wakelog.cli.failures import explain
from wakelog.cli.hello import greet
from wakelog.cli.program import version
from wakelog.cli.stop_signals import StopSignals
from wakelog.cli.up import DeploymentFactory, run_up


def run(
    arguments: Sequence[str],
    signals: StopSignals,
    make: DeploymentFactory = make_deployment,
) -> int:
    """Run one command line and return the exit code."""
    app = build_app(signals, make)
    try:
        outcome = app(arguments, prog_name="wakelog", standalone_mode=False)
        return outcome if isinstance(outcome, int) else 0
    except typer.TyperException as error:
        # A mistake in the command line, which typer would explain on four lines.
        failure = explain(_misuse(error))
    except Exception as error:
        failure = explain(error)
    print(failure.line, file=sys.stderr, flush=True)
    return failure.exit_code


def build_app(signals: StopSignals, make: DeploymentFactory) -> typer.Typer:
    """Return the application with its commands."""
    app = typer.Typer(
        name="wakelog",
        help="A RocketMQ 4.9.3 broker and name server on Ray actors.",
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )

    @app.callback(invoke_without_command=True)
    def wakelog(
        context: typer.Context,
        show_version: Annotated[
            bool, typer.Option("--version", help="Show the version and exit.")
        ] = False,
    ) -> None:
        if show_version:
            print(f"wakelog {version()}")
            raise typer.Exit
        if context.invoked_subcommand is None:
            print(context.get_help())
            raise typer.Exit

    @app.command()
    def up(
        store: Annotated[
            str | None,
            typer.Option(metavar="DIR", help="Store directory.  [default: ~/store]"),
        ] = None,
        name_server_port: Annotated[
            int | None,
            typer.Option(
                "--namesrv-port",
                metavar="PORT",
                help="Port of the name server; 0 starts none.  [default: 9876]",
            ),
        ] = None,
        broker_port: Annotated[
            int | None,
            typer.Option(
                metavar="PORT",
                help="Port of the first broker; PORT-2 and PORT+1 follow.  [default: 10911]",
            ),
        ] = None,
        bind: Annotated[
            str, typer.Option(metavar="IP", help="Address to listen on; 0.0.0.0 for all.")
        ] = "127.0.0.1",
        advertise: Annotated[
            str | None,
            typer.Option(metavar="IP", help="Address that clients are told.  [default: --bind]"),
        ] = None,
        brokers: Annotated[
            int,
            typer.Option(metavar="N", help="How many brokers; ports 20 apart, stores inside DIR."),
        ] = 1,
        config: Annotated[
            str | None,
            typer.Option(metavar="FILE", help="RocketMQ's broker.conf; flags beat it."),
        ] = None,
        settings: Annotated[
            list[str] | None,
            typer.Option("--set", metavar="KEY=VALUE", help="One setting of broker.conf; repeat."),
        ] = None,
        transport: Annotated[
            Transport, typer.Option(help="How progress travels between actors.")
        ] = Transport.BELLS,
        local: Annotated[
            bool, typer.Option("--local", help="Everything in this process, without Ray.")
        ] = False,
        metrics_port: Annotated[
            int | None,
            typer.Option(
                metavar="PORT",
                help="Port of /metrics; 0 for none.  [default: 5557, or the next free one]",
            ),
        ] = None,
    ) -> int:
        """Start a name server and a broker here, show what they do, stop them in order."""
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
            metrics_port=metrics_port,
        )
        return run_up(options, signals, make)

    @app.command()
    def hello(
        name_server: Annotated[str, typer.Argument(metavar="HOST:PORT")] = "127.0.0.1:9876",
        topic: Annotated[str, typer.Option(help="Topic to send to; made if need be.")] = "hello",
    ) -> None:
        """Send one message through a cluster and fetch it back."""
        greet(name_server, topic, print)

    return app


def _misuse(error: typer.TyperException) -> PlanRefused:
    """Part typer's message into what is wrong and, if it says so, what was meant."""
    text = getattr(error, "format_message", error.__str__)()
    cause, _, hint = text.removesuffix(".").partition(". ")
    return PlanRefused(cause[:1].lower() + cause[1:], hint or "See wakelog --help.")
