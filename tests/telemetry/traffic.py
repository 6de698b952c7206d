"""A little of everything that a broker counts, and a look at one of the counts."""

import asyncio
import json
from typing import Any

from tests.actors.client import Client, records
from tests.actors.deployments import wait_until
from wakelog.actors.deploy.deployment import Deployment
from wakelog.actors.deploy.local import LocalDeployment
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.telemetry.collector import read_series
from wakelog.telemetry.metrics import METRICS

TOPIC = "metrics"
GROUP = "consumers"
MESSAGES_COUNT = 20


async def _heartbeat(client: Client) -> None:
    subscription = {"topic": TOPIC, "subString": "*", "expressionType": "TAG", "subVersion": 1}
    heartbeat = {
        "clientID": "127.0.0.1@metrics",
        "producerDataSet": [{"groupName": "producers"}],
        "consumerDataSet": [
            {
                "groupName": GROUP,
                "consumeType": "CONSUME_PASSIVELY",
                "messageModel": "CLUSTERING",
                "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
                "subscriptionDataSet": [subscription],
                "unitMode": False,
            }
        ],
    }
    answer = await client.call(RequestCode.HEART_BEAT, {}, json.dumps(heartbeat).encode())
    assert answer.code == ResponseCode.SUCCESS


async def make_traffic(client: Client) -> None:
    """Send, pull, hold a pull and wake it, send back, commit."""
    await _heartbeat(client)
    for number in range(MESSAGES_COUNT):
        answer = await client.send(TOPIC, b"body", properties=f"KEYS\x01key-{number}\x02")
        assert answer.code == ResponseCode.SUCCESS
    found = await wait_until(lambda: _found(client), "the messages")
    held = asyncio.ensure_future(client.pull(TOPIC, MESSAGES_COUNT, hold_ms=15_000))
    while not held.done():
        await client.send(TOPIC, b"wakes the pull")
    back = {
        "offset": found[0].physical_offset,
        "group": GROUP,
        "delayLevel": 3,
        "originMsgId": "",
        "originTopic": TOPIC,
    }
    answer = await client.call(RequestCode.CONSUMER_SEND_MSG_BACK, back)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    commit = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": 0, "commitOffset": 5}
    await client.call(RequestCode.UPDATE_CONSUMER_OFFSET, commit)


async def _found(client: Client) -> Any:
    answer = await client.pull(TOPIC, 0)
    found = records(answer) if answer.code == ResponseCode.SUCCESS else []
    return found if len(found) == MESSAGES_COUNT else None


async def settled(deployment: Deployment) -> dict[str, Any] | None:
    """Return what a scrape is told once every service has joined and caught up."""
    assert isinstance(deployment, LocalDeployment)
    found = await deployment.metrics()
    [broker] = found["brokers"].values()
    words = broker["watermarks"]
    settled = (
        all(broker["services"].values())
        and broker["services"]["retention"]["log_used_percent"] >= 0
        and words["dispatched"] == words["appended"]
        and broker["services"]["reput"]["cursor"]["position"] == words["appended"]
    )
    return found if settled else None


def value_of(statistics: dict[str, Any], name: str, **labels: str) -> float:
    """Return the one value of a metric that has these labels among its own."""
    [spec] = [spec for spec in METRICS if spec.name == name]
    found = [
        value * spec.scale
        for values, value in read_series(spec, statistics).items()
        if labels.items() <= dict(zip(spec.labels, values, strict=True)).items()
    ]
    assert len(found) == 1, (name, labels, found)
    return float(found[0])
