"""How mqadmin's commands are declared: with its flags, and those that reach a cluster."""

import os
from typing import Annotated, Any, Final, Literal

from wakelog.cli.command import Option
from wakelog.cli.root import program
from wakelog.cli.wire import ENVIRONMENT_NAME, Wire


def flag(short: str, name: str, meaning: str, **more: Any) -> Option:
    """Declare `-t VALUE` or `--topic VALUE`; blanks around the value do not count."""
    names = (f"-{short}", f"--{name}") if short else (f"--{name}",)
    return Option("", meaning, names, parse=str.strip, **more)


def mark(short: str, name: str, meaning: str) -> Option:
    """Declare `-l` or `--list`, without a value."""
    return Option("", meaning, (f"-{short}", f"--{name}"), takes_value=False)


Topic = Annotated[str, flag("t", "topic", "Name of the topic.")]
Group = Annotated[str, flag("g", "consumerGroup", "Name of the consumer group.")]
GroupName = Annotated[str, flag("g", "groupName", "Name of the group.")]
Broker = Annotated[str, flag("b", "brokerAddr", "Address of a broker, HOST:PORT.")]
Cluster = Annotated[str, flag("c", "clusterName", "Name of a cluster: all its masters.")]
WholeCluster = Annotated[str, flag("c", "clusterName", "Name of the cluster.")]
BrokerName = Annotated[str, flag("b", "brokerName", "Name of the broker.")]

BROKER_OR_CLUSTER: Final = ("broker", "cluster")
"""Of these parameters exactly one is given."""


def _wire(
    name_servers: Annotated[
        str | None,
        flag(
            "n",
            "namesrvAddr",
            "HOST:PORT of the name servers, `;` between.  [default: NAMESRV_ADDR]",
        ),
    ] = None,
    output: Annotated[
        Literal["table", "json"], flag("", "output", "table, or json: one object a line.")
    ] = "table",
    access_key: Annotated[
        str | None,
        flag("", "access-key", "Access key of the account, for brokers with access control."),
    ] = None,
    secret_key: Annotated[
        str | None,
        flag(
            "",
            "secret-key",
            "Its secret key.  [default: WAKELOG_SECRET_KEY, else it is asked for]",
        ),
    ] = None,
    account: Annotated[
        str | None,
        flag("", "account", "File with accessKey and secretKey, as mqadmin's tools.yml."),
    ] = None,
    tls: Annotated[bool, flag("", "tls", "true for connections with TLS.")] = False,
    tls_trust: Annotated[
        str | None,
        flag("", "tls-trust", "PEM file of the signers of servers, in place of the system's."),
    ] = None,
    tls_config: Annotated[
        str | None,
        flag("", "tls-config", "A tls.properties: signers, and a certificate of one's own."),
    ] = None,
    tls_insecure: Annotated[
        bool, flag("", "tls-insecure", "true for any certificate of a server.")
    ] = False,
) -> Wire:
    """Return how the cluster is reached, by the flags that every command has."""
    if name_servers is None:
        name_servers = os.environ.get(ENVIRONMENT_NAME, "")
    keys = access_key, secret_key, account
    return Wire(name_servers, output, *keys, tls, tls_trust, tls_config, tls_insecure)


MODULES: Final = (
    "topics", "groups", "clients", "offsets", "messages", "sends", "traces", "transactions",
    "brokers", "accounts", "exports",
)  # fmt: skip
"""Where the commands are, in the order of the help."""

mqadmin: Final = program.group(
    "admin",
    "Run a command of mqadmin, without a JVM.",
    _wire,
    load=tuple(f"wakelog.cli.admin.{module}" for module in MODULES),
)
