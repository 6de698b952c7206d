"""Command lines of `wakelog admin`, whose lines a test gets one by one."""

import asyncio
from collections.abc import Callable, Sequence

from wakelog.cli.command import Call, read
from wakelog.cli.output import show
from wakelog.cli.root import ask_of, program
from wakelog.client.admin import open_admin


def run_admin(words: Sequence[str], say: Callable[[str], None]) -> None:
    """Run a command; `say` gets each line, and may end it by an exception."""
    call = read(program, ["admin", *words])
    assert isinstance(call, Call)
    wire = call.first

    async def main() -> None:
        async with open_admin(wire.options()) as admin:
            async for output in ask_of(["admin", *words])(admin):
                show(output, say, as_json=wire.as_json)

    asyncio.run(main())
