"""`GET /metrics` of a deployment: in the Supervisor, or in the process that runs everything."""

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
