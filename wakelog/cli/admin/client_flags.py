"""How a cluster is reached, from the flags that every command has."""

import os
import sys
from typing import Final

from wakelog.actors.errors import NotPossible
from wakelog.actors.start_outcome import sentence
from wakelog.cli.admin.account_keys import account_keys
from wakelog.cli.admin.command import Flags
from wakelog.client.options import ClientOptions
from wakelog.network.errors import TlsRefused
from wakelog.network.tls import Tls
from wakelog.protocol.addresses import read_name_servers
from wakelog.protocol.java import parse_boolean

GROUP: Final = "TOOLS_CONSUMER"
TIMEOUT_MS: Final = 5_000
ENVIRONMENT_NAME: Final = "NAMESRV_ADDR"


def client_options(flags: Flags) -> ClientOptions:
    """Return how the cluster is reached. Raises: NotPossible."""
    text = flags["n"] if "n" in flags else os.environ.get(ENVIRONMENT_NAME, "")
    try:
        name_servers = read_name_servers(text)
    except ValueError:
        name_servers = ()
    if not name_servers:
        cause = f"-n {text} is no HOST:PORT" if text.strip() else "no name server is given"
        raise NotPossible(cause, f"Give -n HOST:PORT, or set {ENVIRONMENT_NAME}.")
    if flags.get("output", "table") not in ("table", "json"):
        raise NotPossible(f"--output {flags['output']} is not known", "Give table or json.")
    return ClientOptions(
        name_servers,
        group=GROUP,
        timeout_ms=TIMEOUT_MS,
        retries_max=0,
        credentials=account_keys(flags),
        tls=_tls(flags),
    )


def _tls(flags: Flags) -> Tls | None:
    """Return what TLS is to trust and to show, None for none. Raises: NotPossible, TlsRefused."""
    given = [name for name in ("tls-trust", "tls-config") if name in flags]
    is_insecure = parse_boolean(flags.get("tls-insecure"))
    if len(given) + is_insecure > 1:
        names = " and ".join(f"--{name}" for name in (*given, "tls-insecure")[:2])
        raise NotPossible(f"{names} contradict each other", "Give one of them.")
    if "tls-config" in flags:
        from wakelog.network.tls_properties import CONFIG_FILE, TlsSource, read_tls

        source = TlsSource(config_path=flags["tls-config"], directory=os.getcwd())
        try:
            found = read_tls(source)
        except TlsRefused as error:
            cause, _, remedy = str(error).replace(CONFIG_FILE, "--tls-config").partition("; ")
            raise NotPossible(cause, sentence(remedy or "correct that file")) from error
        for warning in found.warnings:
            print(f"wakelog: {warning}", file=sys.stderr)
        return found.client
    if is_insecure:
        return Tls(checks_server=False, checks_host=False)
    uses_tls = "tls-trust" in flags or parse_boolean(flags.get("tls"))
    return Tls(flags.get("tls-trust", "")) if uses_tls else None
