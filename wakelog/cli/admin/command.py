"""How mqadmin's commands are declared: with its flags, and those that reach a cluster."""

import os
from typing import Any, Final

from wakelog.cli.command import REQUIRED
from wakelog.cli.options import OutputForm, Text, option, switch
from wakelog.cli.root import program
from wakelog.cli.wire import ENVIRONMENT_NAME, Wire


def flag(short: str, name: str, meaning: str, default: Any = REQUIRED, **more: Any) -> Any:
    """Declare `-t VALUE` or `--topic VALUE`; blanks around the value do not count."""
    names = (f"-{short}", f"--{name}") if short else (f"--{name}",)
    return option("", meaning, *names, default=default, parse=str.strip, **more)


def mark(short: str, name: str, meaning: str) -> Any:
    """Declare `-l` or `--list`, without a value."""
    return switch(meaning, f"-{short}", f"--{name}")


TOPIC = flag("t", "topic", "Name of the topic.")
GROUP = flag("g", "consumerGroup", "Name of the consumer group.")
GROUP_NAME = flag("g", "groupName", "Name of the group.")
BROKER = flag("b", "brokerAddr", "Address of a broker, HOST:PORT.", "")
CLUSTER = flag("c", "clusterName", "Name of a cluster: all its masters.", "")
WHOLE_CLUSTER = flag("c", "clusterName", "Name of the cluster.")
BROKER_NAME = flag("b", "brokerName", "Name of the broker.")

BROKER_OR_CLUSTER: Final = ("broker", "cluster")
"""Of these parameters exactly one is given."""


def _wire(
    name_servers: Text = flag(
        "n",
        "namesrvAddr",
        "HOST:PORT of the name servers, `;` between.  [default: NAMESRV_ADDR]",
    ),
    output: OutputForm = flag("", "output", "table, or json: one object a line.", "table"),
    access_key: Text = flag(
        "", "access-key", "Access key of the account, for brokers with access control."
    ),
    secret_key: Text = flag(
        "",
        "secret-key",
        "Its secret key.  [default: WAKELOG_SECRET_KEY, else it is asked for]",
    ),
    account: Text = flag(
        "", "account", "File with accessKey and secretKey, as mqadmin's tools.yml."
    ),
    tls: bool = flag("", "tls", "true for connections with TLS."),
    tls_trust: Text = flag(
        "", "tls-trust", "PEM file of the signers of servers, in place of the system's."
    ),
    tls_config: Text = flag(
        "", "tls-config", "A tls.properties: signers, and a certificate of one's own."
    ),
    tls_insecure: bool = flag("", "tls-insecure", "true for any certificate of a server."),
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
