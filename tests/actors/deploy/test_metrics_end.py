"""The metrics of a whole deployment, as a scrape finds them."""

import asyncio
import socket
import urllib.request
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.actors.deployments import running, small_plan
from tests.compat.processes import free_port
from wakelog.actors.deploy.metrics_end import serve_metrics
from wakelog.network.errors import PortUnavailable
from wakelog.telemetry.exposition import MetricsServer


def scrape(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.slow
def test_a_deployment_is_scraped_while_it_runs(tmp_path: Path) -> None:
    async def main() -> tuple[dict[str, float], int]:
        plan = msgspec.structs.replace(small_plan(tmp_path), metrics_port=free_port())
        async with running(plan) as (_, client):
            await client.send("metrics", b"body")
            return await asyncio.to_thread(scrape, plan.metrics_port), plan.metrics_port

    samples, port = asyncio.run(main())
    assert samples["rocketmq_store_put_messages_total"] == 1
    assert samples["rocketmq_build_info"] == 1
    assert samples["process_resident_memory_bytes"] > 0
    with pytest.raises(OSError):
        scrape(port)


def test_a_taken_port_is_named() -> None:
    async def nothing() -> dict[str, float]:
        return {}

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortUnavailable, match=f"127.0.0.1:{port}"):
            asyncio.run(serve_metrics(MetricsServer(nothing, []), "127.0.0.1", port))
