"""Actions for maintenance: what they would do, in numbers, and that they do it."""

import asyncio

from tests.console.site import Browser, Serving
from wakelog.client.admin import open_admin
from wakelog.console.actions.table import ACTIONS
from wakelog.protocol.bodies import TopicRouteData
from wakelog.protocol.sys_flag import PERM_READ, PERM_WRITE
from wakelog.testing.embedded_broker import EmbeddedBroker


def route(broker: EmbeddedBroker, topic: str) -> TopicRouteData:
    async def ask() -> TopicRouteData:
        async with open_admin(broker.name_server) as admin:
            return await admin.route(topic)

    return asyncio.run(ask())


def test_sends_are_stopped_and_allowed_again(
    browser: Browser, console: Serving, console_broker: EmbeddedBroker
) -> None:
    console_broker.create_topic("kept", queues=2)
    console.read()
    [reading] = console.console.reader.shown.brokers
    shown = browser.get(f"/do/stop-sends?broker={reading.name}").text
    assert "producers find no queue at broker-a for 1 topic, by 1 name server" in shown
    assert "1 topic can be sent to nowhere else: kept" in shown
    assert browser.submit("/do/stop-sends", broker=reading.name).status == 422
    answer = browser.submit("/do/stop-sends", broker=reading.name, typed=reading.name)
    assert answer.status == 200 and "wakelog admin wipeWritePerm -b broker-a" in answer.text
    assert [x.perm for x in route(console_broker, "kept").queue_datas] == [PERM_READ]
    shown = browser.get(f"/do/allow-sends?broker={reading.name}").text
    assert "producers find the queues of broker-a again, for 1 topic" in shown
    assert browser.submit("/do/allow-sends", broker=reading.name).status == 200
    assert [x.perm for x in route(console_broker, "kept").queue_datas] == [PERM_READ | PERM_WRITE]


def test_a_broker_that_is_not_there_is_said(browser: Browser) -> None:
    assert "there is no broker nowhere" in browser.get("/do/stop-sends?broker=nowhere").text
    path = "/do/switch-master?broker=nowhere&register=file:///nowhere"
    assert "there is no broker nowhere" in browser.get(path).text


def test_queues_of_no_use_are_cleaned(browser: Browser, console: Serving) -> None:
    console.read()
    [reading] = console.console.reader.shown.brokers
    for name, command in (
        ("clean-expired-queues", "cleanExpiredCQ"),
        ("clean-unused-topics", "cleanUnusedTopic"),
    ):
        shown = browser.get(f"/do/{name}?broker={reading.address}").text
        assert f"{reading.address} has " in shown and "does not say before how many" in shown
        assert browser.submit(f"/do/{name}", broker=reading.address).status == 422
        answer = browser.submit(f"/do/{name}", broker=reading.address, typed=reading.address)
        assert answer.status == 200 and f"{command} -b {reading.address}" in answer.text


def test_a_switch_is_the_command_that_shows_it_with_yes() -> None:
    action = ACTIONS["switch-master"]
    values = {"broker": "broker-a", "register": "etcd://a:2379", "to": ""}
    assert action.command(values) == (
        "wakelog cluster failover broker-a --register etcd://a:2379 --yes"
    )
    assert action.shown is not None
    chosen = {**values, "to": "2"}
    assert [*action.shown.words(chosen), "--yes"] == list(action.words(chosen))
    assert action.shown.sums([{"to": 2, "lossBytes": 0}, {"changed": False}]) == [
        "replica 2 is to be master"
    ]
