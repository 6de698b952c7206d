"""How a command reaches a cluster: the options that all of them have."""

import os
import sys
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from wakelog.actors.errors import NotPossible
from wakelog.cli.options import OUTPUT, OutputForm, Text, option, switch
from wakelog.cli.stop_signals import run_interruptibly

if TYPE_CHECKING:
    from wakelog.cli.output import Output
    from wakelog.client.admin import Admin
    from wakelog.client.options import ClientOptions
    from wakelog.network.tls import Tls

ENVIRONMENT_NAME: Final = "NAMESRV_ADDR"
NAME_SERVER_DEFAULT: Final = "127.0.0.1:9876"
GROUP: Final = "TOOLS_CONSUMER"
TIMEOUT_MS: Final = 5_000

Ask = Callable[["Admin"], AsyncIterator["Output"]]
"""What is asked of a cluster, and what is put out."""


class Wire(NamedTuple):
    """How a command reaches the cluster, and what it puts out; made of all its options."""

    name_server: Text = option(
        "HOST:PORT",
        "Name servers, `;` between.  [default: NAMESRV_ADDR, else 127.0.0.1:9876]",
        "--name-server",
        "-n",
    )
    output: OutputForm = OUTPUT
    access_key: Text = option("KEY", "Of an account, for access control.")
    secret_key: Text = option(
        "KEY", "Of the account.  [default: WAKELOG_SECRET_KEY, else it is asked for]"
    )
    account: Text = option("FILE", "Both keys, as in mqadmin's tools.yml, which others cannot see.")
    tls: bool = switch("Connect with TLS.")
    tls_trust: Text = option("FILE", "PEM of the signers; implies --tls.")
    tls_config: Text = option(
        "FILE", "A tls.properties, with a certificate of one's own; implies --tls."
    )
    tls_insecure: bool = switch("Trust any certificate; implies --tls.")

    @property
    def as_json(self) -> bool:
        """Whether objects are put out."""
        return self.output == "json"

    def options(self) -> "ClientOptions":
        """Return them for a client. Raises: NotPossible, TlsRefused."""
        import logging

        from wakelog.cli.account_keys import account_keys
        from wakelog.client.options import ClientOptions
        from wakelog.protocol.addresses import read_name_servers

        # Without a handler Python writes warnings beside the one line that an error has.
        logging.getLogger("wakelog.client").addHandler(logging.NullHandler())
        text = self.name_server
        if text is None:
            text = os.environ.get(ENVIRONMENT_NAME) or NAME_SERVER_DEFAULT
        try:
            name_servers = read_name_servers(text)
        except ValueError:
            name_servers = ()
        if not name_servers:
            cause = f"-n {text} is no HOST:PORT" if text.strip() else "no name server is given"
            raise NotPossible(cause, f"Give -n HOST:PORT, or set {ENVIRONMENT_NAME}.")
        return ClientOptions(
            name_servers,
            group=GROUP,
            timeout_ms=TIMEOUT_MS,
            retries_max=0,
            credentials=account_keys(self.access_key, self.secret_key, self.account),
            tls=self._tls(),
        )

    def _tls(self) -> "Tls | None":
        """Return what TLS is to trust and to show, None for none."""
        from wakelog.network.tls import Tls

        contrary = {
            "--tls-trust": self.tls_trust is not None,
            "--tls-config": self.tls_config is not None,
            "--tls-insecure": self.tls_insecure,
        }
        given = [name for name, is_given in contrary.items() if is_given]
        if len(given) > 1:
            raise NotPossible(
                f"{' and '.join(given[:2])} contradict each other", "Give one of them."
            )
        if self.tls_config is not None:
            return _configured_tls(self.tls_config)
        if self.tls_insecure:
            return Tls(checks_server=False, checks_host=False)
        return Tls(self.tls_trust or "") if self.tls_trust is not None or self.tls else None

    def run(self, ask: Ask) -> None:
        """Ask the cluster, and put out what comes. Raises: NotPossible, ClientError."""
        from wakelog.cli.output import show
        from wakelog.client.admin import open_admin

        async def main() -> None:
            async with open_admin(self.options()) as admin:
                async for output in ask(admin):
                    show(output, print, as_json=self.as_json)
                    sys.stdout.flush()  # the next one may be a long time off

        run_interruptibly(main())


def _configured_tls(path: str) -> "Tls":
    """Return what a tls.properties says of clients; its warnings go to standard error."""
    from wakelog.actors.start_outcome import sentence
    from wakelog.network.errors import TlsRefused
    from wakelog.network.tls_properties import CONFIG_FILE, TlsSource, read_tls

    try:
        found = read_tls(TlsSource(config_path=path, directory=os.getcwd()))
    except TlsRefused as error:
        cause, _, remedy = str(error).replace(CONFIG_FILE, "--tls-config").partition("; ")
        raise NotPossible(cause, sentence(remedy or "correct that file")) from error
    for warning in found.warnings:
        print(f"wakelog: {warning}", file=sys.stderr)
    return found.client
