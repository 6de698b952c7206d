"""The metrics of a deployment over HTTP: what its `statistics` returns, behind `GET /metrics`.

Hosted by whoever can ask every actor: the Supervisor, or the deployment in one process.
"""

from __future__ import annotations

from wakelog.network.errors import PortUnavailable
from wakelog.telemetry.exposition import MetricsServer, ReadStatistics
from wakelog.telemetry.metrics import METRICS


async def serve_metrics(read: ReadStatistics, host: str, port: int) -> MetricsServer:
    """Serve every metric on a port until the caller closes it. Raises: PortUnavailable."""
    server = MetricsServer(read, METRICS)
    try:
        await server.start(host, port)
    except OSError as error:
        raise PortUnavailable(host, port, error) from error
    return server
