"""What actions on topics would do, in numbers, and that they do it."""

import asyncio
from collections.abc import Mapping

from tests.console.site import Browser, Serving
from wakelog.client.admin import open_admin
from wakelog.client.sync import Producer
from wakelog.console.actions.table import ACTIONS
from wakelog.testing.embedded_broker import EmbeddedBroker


def preview(name: str, broker: EmbeddedBroker, given: Mapping[str, str]) -> list[str]:
    action = ACTIONS[name]
    values, wrong = action.checked({"cluster": "DefaultCluster", **given})
    assert not wrong and action.preview is not None

    async def ask() -> list[str]:
        assert action.preview is not None
        async with open_admin(broker.name_server) as admin:
            return await action.preview(admin, values)

    return asyncio.run(ask())


def test_making_a_topic_that_is_there_changes_its_queues(console_broker: EmbeddedBroker) -> None:
    wanted = {"topic": "there", "queues": "3"}
    [new] = preview("create-topic", console_broker, wanted)
    assert new == "3 queues at each of 1 broker"
    console_broker.create_topic("there", queues=2)
    _, again = preview("create-topic", console_broker, wanted)
    assert "is there already" in again


def test_deleting_says_how_many_messages_go(console_broker: EmbeddedBroker) -> None:
    with Producer(console_broker.name_server, group="p") as producer:
        for number in range(5):
            producer.send("going", b"%d" % number)
    console_broker.wait_for_messages("going", count=5)
    held, groups = preview("delete-topic", console_broker, {"topic": "going"})
    assert held.startswith("5 messages in ")
    assert groups == "groups that consume it: none"


def test_an_ordered_topic_is_made_by_its_switch(browser: Browser, console: Serving) -> None:
    fields = {"topic": "in-order", "cluster": "DefaultCluster", "queues": "1"}
    answer = browser.submit("/do/create-topic", **fields, order="true")
    assert "order=true" in answer.text
