"""`wakelog up` and `wakelog nameserver`: what can be typed. `up.py` has what they do."""

from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from wakelog.cli.options import Number, Settings, Store, Text, option, switch
from wakelog.cli.root import program
from wakelog.cli.stop_signals import StopSignals

if TYPE_CHECKING:
    from wakelog.cli.up import DeploymentFactory

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
Open = Annotated[bool, switch("Let other hosts in without access control.", "--open")]
Advertise = Annotated[Text, option("IP", "Address that clients get.  [default: --bind]")]
Brokers = Annotated[int, option("N", "How many brokers; ports 20 apart, stores inside DIR.")]
Replicas = Annotated[int, option("N", "Of each broker; the first is master, and N-1 copy its log.")]
Config = Annotated[Text, option("FILE", "RocketMQ's broker.conf; flags beat it.")]
Progress = Annotated[
    Literal["notifications", "references"],
    option("", "How progress travels between actors."),
]
NameServerStore = Annotated[
    Text, option("DIR", "Where its values and logs are kept.  [default: ~/namesrv]", "--store")
]
NameServerOwnPort = Annotated[Number, option("PORT", "Its port.  [default: 9876]", "--port")]
NameServerConf = Annotated[
    Text, option("FILE", "RocketMQ's namesrv.conf; flags beat it.", "--config")
]
Local = Annotated[bool, switch("Everything in this process, without Ray.", "--local")]
PlainRay = Annotated[bool, switch("Start Ray by ray.init, some seconds slower.", "--plain-ray")]
MetricsPort = Annotated[
    Number, option("PORT", "Port of /metrics; 0 for none.  [default: 5557, or the next free one]")
]
ConsolePort = Annotated[
    Number, option("PORT", "Of the console; 0 for none.  [default: 8080, or the next free one]")
]
ConsoleAccount = Annotated[
    Text, option("FILE", "The console's account, both keys as in mqadmin's tools.yml.")
]


class Process(NamedTuple):
    """The signals that ask for a stop, and what makes the deployment, None for the usual one."""

    signals: StopSignals
    make: "DeploymentFactory | None"


@program.command()
def up(
    process: Process,
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
    return run_up(options, process.signals, process.make)


@program.command("nameserver")
def name_server(
    process: Process,
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
    return run_name_server(options, process.signals)
