"""`GET /metrics` of a deployment: in the Supervisor, or in the process that runs everything."""

from wakelog.network.errors import PortUnavailable
from wakelog.telemetry.exposition import MetricsServer


async def serve_metrics(server: MetricsServer, host: str, port: int) -> None:
    """Serve on a port until the caller closes the server. Raises: PortUnavailable."""
    try:
        await server.start(host, port)
    except OSError as error:
        raise PortUnavailable(host, port, error) from error
