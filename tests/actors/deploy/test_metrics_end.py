"""The metrics of a whole deployment, as a scrape finds them."""

import asyncio
import json
import socket
import time
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.actors.deployments import running, small_plan
from tests.compat.processes import free_port
from tests.telemetry.test_exposition import exchange
from tests.telemetry.test_exposition import get as get_request
from wakelog.actors.deploy.local import LocalDeployment
from wakelog.actors.deploy.metrics_end import serve_metrics
from wakelog.broker.state import BrokerState
from wakelog.network.errors import PortUnavailable
from wakelog.telemetry.collector import SERIES_MAX
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


TOPICS, QUEUES, GROUPS = 1_000, 8, 50
STORED_TOPICS = 300
"""That have messages: more queues than a scrape measures."""

SECONDS_MAX = 1.0
BROKER_SECONDS_MAX = 0.1
"""Of a broker that has been scraped before; it takes some 0.03."""

SCRAPES = 6
"""Until every queue was read, also beside other tests."""

ALL_NAMES = "wakelog.metricsNames=native,exporter,v5"


def fill(state: BrokerState) -> None:
    """Have 50 groups consume 1,000 topics of 8 queues each."""
    for topic in (f"topic-{number:04}" for number in range(TOPICS)):
        state.topics.create(topic, QUEUES, 0)
        state.traffic.count_put(topic, QUEUES, 800)
        for group in (f"group-{number:02}" for number in range(GROUPS)):
            state.traffic.count_get(topic, group, 1, 100)
            for queue_id in range(QUEUES):
                state.offsets.commit(group, topic, queue_id, queue_id % 2)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_scrape_of_a_large_broker_takes_under_a_second(tmp_path: Path) -> None:
    """In time of this process, which serves and is scraped: other tests may have the cores."""

    async def main() -> tuple[list[tuple[float, str]], float]:
        plan = msgspec.structs.replace(
            small_plan(tmp_path, "mappedFileSizeConsumeQueue=2000", ALL_NAMES),
            metrics_port=free_port(),
        )
        async with running(plan) as (deployment, client):
            assert isinstance(deployment, LocalDeployment)
            fill(deployment.brokers[0].service.broker.state)
            for number in range(STORED_TOPICS):
                sends = (client.send(f"topic-{number:04}", b"b", queue_id=q) for q in range(QUEUES))
                await asyncio.gather(*sends)
            found = []
            for _ in range(3):
                began = time.process_time()
                answer = await exchange(plan.metrics_port, get_request())
                found.append((time.process_time() - began, answer.decode()))
            shares = []
            for _ in range(SCRAPES):
                began = time.process_time()
                await deployment.brokers[0].service.measure_by_name(has_other_names=True)
                shares.append(time.process_time() - began)
            return found, min(shares)

    scrapes, of_broker_seconds = asyncio.run(main())
    assert of_broker_seconds < BROKER_SECONDS_MAX
    assert min(seconds for seconds, _ in scrapes) < SECONDS_MAX
    text = scrapes[-1][1]
    assert text.startswith("HTTP/1.1 200 OK")
    assert text.count("\nrocketmq_group_get_messages_total{") == SERIES_MAX
    assert 'dropped_series_total{family="rocketmq_group_get_messages_total"}' in text
    assert text.count("\nrocketmq_consumer_queue_lag_messages{") > 0
    assert text.count("\nrocketmq_messages_out_total{") == SERIES_MAX
    assert text.count("\nrocketmq_consumer_message_size{") > 0
    assert 'rocketmq_queues_unmeasured{broker="broker-a",kind="group"} 39' in text
