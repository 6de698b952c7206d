"""`wakelog findings`: what is wrong with a cluster, the worst first, and what helps.

It reads the cluster twice, since what grows is seen by two readings. It changes nothing.
"""

import asyncio
from collections.abc import AsyncIterator

from wakelog.actors.errors import CommandFailed
from wakelog.cli.failures import with_options
from wakelog.cli.output import Output
from wakelog.client.admin import Admin
from wakelog.client.clocks import wall_ms
from wakelog.console.cluster_reading import read_cluster
from wakelog.console.findings import find
from wakelog.console.history import History
from wakelog.console.rules import PROBLEM, Finding


async def findings(admin: Admin, seconds: float) -> AsyncIterator[Output]:
    """Yield the findings. seconds: between two readings; 0 for one.

    Raises: CommandFailed at the end if there is a problem.
    """
    async for finding in shown(_findings(admin, seconds)):
        yield finding


async def _findings(admin: Admin, seconds: float) -> AsyncIterator[Finding]:
    history = History()
    history.add(await read_cluster(admin, wall_ms()))
    if seconds and history.latest.failure is None:
        await asyncio.sleep(seconds)
        history.add(await read_cluster(admin, wall_ms(), history.latest))
    for finding in find(history):
        yield finding


async def shown(found: AsyncIterator[Finding]) -> AsyncIterator[Output]:
    """Yield findings as the command line says them.

    Raises: CommandFailed at the end if there is a problem.
    """
    problems_count = 0
    async for finding in found:
        problems_count += finding.verdict == PROBLEM
        yield finding._replace(remedy=with_options(finding.remedy))
    if problems_count:
        noun = "problem" if problems_count == 1 else "problems"
        raise CommandFailed(f"{problems_count} {noun} found", "See what stands with each.")
