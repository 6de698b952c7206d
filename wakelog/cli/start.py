"""`wakelog up` and `wakelog nameserver`: what can be typed. `up.py` has what they do."""

from typing import TYPE_CHECKING, Literal, NamedTuple

from wakelog.cli.options import OUTPUT, SET, STORE, Number, OutputForm, Text, option, switch
from wakelog.cli.program import FAILED
from wakelog.cli.root import program
from wakelog.cli.stop_signals import StopSignals
from wakelog.telemetry.lean_import import import_structlog, uncollected

if TYPE_CHECKING:
    from wakelog.actors.deploy.plan import UpOptions
    from wakelog.cli.up import DeploymentFactory

BIND = option("IP", "Address to listen on; 0.0.0.0 for all.", default="127.0.0.1")
ADVERTISE = option("IP", "Address that clients get.  [default: --bind]")
METRICS_PORT = option(
    "PORT", "Port of /metrics; 0 for none.  [default: 5557, or the next free one]"
)


class Process(NamedTuple):
    """The signals that ask for a stop, and what makes the deployment, None for the usual one."""

    signals: StopSignals
    make: "DeploymentFactory | None"


def broker_options(
    store: Text = STORE,
    name_server_port: Number = option(
        "PORT", "Port of the name server; 0 starts none.  [default: 9876]", "--namesrv-port"
    ),
    broker_port: Number = option(
        "PORT",
        "Port of the first broker; PORT-2 and PORT+1 follow; 0 takes free ones.  [default: 10911]",
    ),
    bind: str = BIND,
    is_open: bool = switch("Let other hosts in without access control.", "--open"),
    advertise: Text = ADVERTISE,
    brokers: int = option("N", "How many brokers; ports 20 apart, stores inside DIR.", default=1),
    replicas: int = option(
        "N", "Of each broker; the first is master, and N-1 copy its log.", default=1
    ),
    config: Text = option("FILE", "RocketMQ's broker.conf; flags beat it."),
    settings: list[str] | None = SET,
    transport: Literal["notifications", "references"] = option(
        "", "How progress travels between actors.", default="notifications"
    ),
    metrics_port: Number = METRICS_PORT,
    drain_seconds: int = option(
        "N", "How long a stop waits for clients to move to other brokers; 0: not.", default=0
    ),
) -> "UpOptions":
    """Return what brokers are to be started, here or as a job (`deploy/start.py`)."""
    with uncollected():
        import_structlog()
        from wakelog.actors.deploy.plan import UpOptions
        from wakelog.actors.transport.service_plan import Transport

    return UpOptions(
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
        metrics_port=metrics_port,
        drain_seconds=drain_seconds,
    )


@program.command(shared=broker_options)
def up(
    process: Process,
    options: "UpOptions",
    local: bool = switch("Everything in this process, without Ray.", "--local"),
    plain_ray: bool = switch("Start Ray by ray.init, some seconds slower.", "--plain-ray"),
    console_port: Number = option(
        "PORT", "Of the console; 0 for none.  [default: 8080, or the next free one]"
    ),
    console_account: Text = option(
        "FILE", "The console's account, both keys as in mqadmin's tools.yml."
    ),
) -> int:
    """Start a name server and a broker, show rates, stop in order."""
    with uncollected():
        from msgspec.structs import replace

        from wakelog.cli.up import run_up

    options = replace(
        options,
        is_local=local,
        plain_ray=plain_ray,
        console_port=console_port,
        console_account=console_account,
    )
    return run_up(options, process.signals, process.make)


@program.command("upgrade-check", shared=broker_options)
def upgrade_check(options: "UpOptions", output: OutputForm = OUTPUT) -> int:
    """Check a store and its settings before an upgrade.

    It says whether this version would start, and whether the way back is open. Give it the options
    of `wakelog up`. It writes nothing, and a broker may run meanwhile. It exits
    with 1 if this version would not start.

    \b
    wakelog upgrade-check --store DIR --config broker.conf
    """
    from wakelog.cli.output import show
    from wakelog.cli.upgrade_check import upgrade_rows
    from wakelog.console.rules import PROBLEM
    from wakelog.storage.file_system import FileSystem

    verdict = ""
    for row in upgrade_rows(options, FileSystem()):
        verdict = row.verdict
        show(row, print, as_json=output == "json")
    return FAILED if verdict == PROBLEM else 0


@program.command("nameserver")
def name_server(
    process: Process,
    store: Text = option(
        "DIR", "Where its values and logs are kept.  [default: ~/namesrv]", "--store"
    ),
    port: Number = option("PORT", "Its port.  [default: 9876]", "--port"),
    bind: str = BIND,
    advertise: Text = ADVERTISE,
    config: Text = option("FILE", "RocketMQ's namesrv.conf; flags beat it.", "--config"),
    settings: list[str] | None = SET,
    metrics_port: Number = METRICS_PORT,
) -> int:
    """Start a name server alone, in this process."""
    import_structlog()
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
    return run_name_server(options, process.signals)
