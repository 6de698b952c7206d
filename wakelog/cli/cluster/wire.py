"""How a command reaches a cluster: the options that all of them have."""

import inspect
import os
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from wakelog.cli.options import OutputForm, Text, option
from wakelog.cli.stop_signals import run_interruptibly

if TYPE_CHECKING:
    from wakelog.cli.admin.command import Output
    from wakelog.client.admin import Admin
    from wakelog.client.options import ClientOptions

ENVIRONMENT_NAME: Final = "NAMESRV_ADDR"
NAME_SERVER_DEFAULT: Final = "127.0.0.1:9876"


class Wire(NamedTuple):
    """How a command reaches the cluster, and what it puts out."""

    name_server: Annotated[
        Text,
        option(
            "HOST:PORT",
            "Name servers, `;` between.  [default: NAMESRV_ADDR, else 127.0.0.1:9876]",
            "--name-server",
            "-n",
        ),
    ] = None
    output: OutputForm = "table"
    access_key: Annotated[Text, option("KEY", "Of an account, for access control.")] = None
    secret_key: Annotated[
        Text, option("KEY", "Of the account.  [default: WAKELOG_SECRET_KEY, else it is asked for]")
    ] = None
    account: Annotated[
        Text, option("FILE", "Both keys, as in mqadmin's tools.yml, which others cannot see.")
    ] = None
    tls: Annotated[bool, typer.Option("--tls", help="Connect with TLS.")] = False
    tls_trust: Annotated[Text, option("FILE", "PEM of the signers; implies --tls.")] = None
    tls_config: Annotated[
        Text, option("FILE", "A tls.properties, with a certificate of one's own; implies --tls.")
    ] = None
    tls_insecure: Annotated[
        bool, typer.Option("--tls-insecure", help="Trust any certificate; implies --tls.")
    ] = False

    @property
    def as_json(self) -> bool:
        """Whether objects are put out."""
        return self.output == "json"

    def options(self) -> "ClientOptions":
        """Return them for a client. Raises: NotPossible."""
        import logging

        from wakelog.cli.admin.client_flags import client_options
        from wakelog.cli.admin.command import Flags

        # Without a handler Python writes warnings beside the one line that an error has.
        logging.getLogger("wakelog.client").addHandler(logging.NullHandler())

        flags = Flags(
            n=os.environ.get(ENVIRONMENT_NAME) or NAME_SERVER_DEFAULT
            if self.name_server is None
            else self.name_server,
            output=self.output,
            tls=str(self.tls).lower(),
            **{"tls-insecure": str(self.tls_insecure).lower()},
        )
        given = {"access-key": self.access_key, "secret-key": self.secret_key}
        given |= {
            "account": self.account,
            "tls-trust": self.tls_trust,
            "tls-config": self.tls_config,
        }
        flags.update({name: text for name, text in given.items() if text is not None})
        return client_options(flags)

    def run(
        self, ask: "Callable[[Admin], AsyncIterator[Output]]", *, flushes: bool = False
    ) -> None:
        """Ask the cluster, and put out what comes. Raises: NotPossible, ClientError."""
        from wakelog.cli.admin.command import show
        from wakelog.client.admin import open_admin

        def say(text: str) -> None:
            print(text, flush=flushes)

        async def main() -> None:
            async with open_admin(self.options()) as admin:
                async for output in ask(admin):
                    show(output, say, as_json=self.as_json)

        run_interruptibly(main())


def over_wire(function: Callable[..., Any], kind: type[Wire]) -> Callable[..., Any]:
    """Return the command with the options of `Wire` after its own, which it gets as one value."""
    [_, *own] = inspect.signature(function).parameters.values()

    def command(**values: Any) -> Any:
        wire = kind(*(values.pop(name) for name in Wire._fields))
        return function(wire, **values)

    common = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=Wire._field_defaults[name],
            annotation=Wire.__annotations__[name],
        )
        for name in Wire._fields
    ]
    every = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own] + common
    command.__name__, command.__doc__ = function.__name__, function.__doc__
    command.__annotations__ = {each.name: each.annotation for each in every}
    command.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    return command
