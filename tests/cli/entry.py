"""`wakelog` with a deployment that does nothing: run by the tests as a program of its own.

The first argument says how the deployment behaves; the rest is the command line.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable

from tests.cli.fakes import FakeDeployment, forever, nothing
from wakelog.actors.errors import DeploymentFailed
from wakelog.cli.stop_signals import StopSignals


async def until_a_line() -> None:
    """Wait for a line on standard input."""
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


async def fail() -> None:
    raise DeploymentFailed("broker-a did not start", "Look at its log.")


async def stumble() -> None:
    raise ZeroDivisionError("one of ours")


BEHAVIOURS: dict[str, tuple[Callable[[], Awaitable[None]], Callable[[], Awaitable[None]], bool]] = {
    "obedient": (nothing, nothing, True),
    "slow-to-start": (forever, nothing, True),
    "slow-to-stop": (nothing, until_a_line, True),
    "never-stops": (nothing, forever, True),
    "untidy": (nothing, nothing, False),
    "does-not-start": (fail, nothing, True),
    "has-a-bug": (stumble, nothing, True),
}


def main() -> int:
    signals = StopSignals()
    signals.install()
    from wakelog.cli import app, up

    on_start, on_stop, in_order = BEHAVIOURS[sys.argv[1]]
    up.STOP_SECONDS_MAX = 0.5 if sys.argv[1] == "never-stops" else 30
    deployment = FakeDeployment(on_start=on_start, on_stop=on_stop, in_order=in_order)
    return app.run(sys.argv[2:], signals, lambda plan: deployment)


if __name__ == "__main__":
    sys.exit(main())
