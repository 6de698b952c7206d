"""The metrics of a whole deployment, as a scrape finds them."""

import asyncio
import json
import socket
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.actors.deployments import running, small_plan
from tests.compat.processes import free_port
from wakelog.actors.deploy.metrics_end import serve_metrics
from wakelog.network.errors import PortUnavailable
from wakelog.telemetry.exposition import MetricsServer


def get(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return str(answer.read().decode())


def scrape(port: int) -> dict[str, float]:
    text = get(port, "/metrics")
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.slow
def test_a_deployment_is_scraped_while_it_runs(tmp_path: Path) -> None:
    async def main() -> tuple[dict[str, float], dict[str, Any], int]:
        plan = msgspec.structs.replace(small_plan(tmp_path), metrics_port=free_port())
        async with running(plan) as (_, client):
            await client.send("metrics", b"body")
            port = plan.metrics_port
            details = json.loads(await asyncio.to_thread(get, port, "/health/details"))
            return await asyncio.to_thread(scrape, port), details, port

    samples, details, port = asyncio.run(main())
    assert details["ready"] and details["reasons"] == []
    [broker] = details["brokers"].values()
    assert {each["state"] for each in (broker, *broker["services"].values())} == {"works"}
    assert {"flush", "reput", "retention"} <= broker["services"].keys()
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
            asyncio.run(serve_metrics(MetricsServer(nothing, [], nothing), "127.0.0.1", port))
