"""The page of one member, of a consumer that is online and of one that hangs."""

import asyncio
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.console.site import Browser, Serving
from wakelog.client.sync import Consumer, Producer
from wakelog.console.pages import members
from wakelog.protocol.codes import RequestCode
from wakelog.testing.embedded_broker import EmbeddedBroker

TOPIC, GROUP = "membered", "group-of-members"


@pytest.fixture(scope="module")
def client(console_broker: EmbeddedBroker, console: Serving) -> Iterator[str]:
    """The id of a consumer that is online."""
    console_broker.create_topic(TOPIC, queues=2)
    with Producer(console_broker.name_server, group="p") as producer:
        producer.send(TOPIC, b"x", queue=("broker-a", 0))
    console_broker.wait_for_messages(TOPIC, count=1)
    given = {"group": GROUP, "topics": {TOPIC: "paid || x"}, "start": "first"}
    with Consumer(console_broker.name_server, **given):  # type: ignore[arg-type]
        console.read()
        group = console.console.reader.shown.groups[GROUP]
        assert group.clients is not None
        yield group.clients.connection_set[0].client_id


def page_of(client: str) -> str:
    return f"/groups/{GROUP}/members/{quote(client, safe='')}"


def test_a_member_says_what_it_has_and_does(browser: Browser, client: str) -> None:
    answer = browser.get(page_of(client))
    assert answer.status == 200, answer.text
    assert "PYTHON Version 4.9.3" in answer.text and "Address 127.0.0.1:" in answer.text, (
        answer.text
    )
    assert f"{TOPIC} paid || x TAG alike" in answer.text
    assert answer.html.count(f'id="q-{TOPIC}-') == 2
    assert "PROP_CONSUME_TYPE CONSUME_PASSIVELY" in answer.text
    assert f"wakelog admin consumerStatus -g {GROUP} -i '{client}'" in answer.text
    assert "data-live" not in answer.html


def test_its_stacks_are_shown_when_they_are_asked_for(browser: Browser, client: str) -> None:
    assert "instance.py" not in browser.get(page_of(client)).text
    answer = browser.get(f"{page_of(client)}?stacks=1")
    assert ".py:" in answer.text.partition("Stacks")[2]
    assert answer.text.rstrip().count("-s") >= 1


def test_the_group_leads_to_its_members(browser: Browser, client: str) -> None:
    for page in (f"/groups/{GROUP}?tab=members", f"/clients?q={GROUP}"):
        assert f'href="{page_of(client)}"' in browser.get(page).html


def test_a_group_or_member_that_is_not_there_is_not_found(browser: Browser, client: str) -> None:
    for page in (f"/groups/{GROUP}/members/gone", "/groups/none/members/x"):
        assert browser.get(page).status == 404


def test_a_member_that_does_not_answer_is_said_soon(
    browser: Browser, console: Serving, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(members, "MEMBER_SECONDS_MAX", 0.1)
    admin = console.console.admin
    ask = admin.ask

    async def hang(address: str, code: RequestCode, *more: object, **named: object) -> object:
        if code is RequestCode.GET_CONSUMER_RUNNING_INFO:
            await asyncio.Event().wait()
        return await ask(address, code, *more, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(admin, "ask", hang)
    answer = browser.get(page_of(client))
    assert answer.status == 200
    assert f"{client} has not answered within 0.1 s" in answer.text
    assert "Some clients answer no questions" in answer.text
    assert "Subscriptions" not in answer.html.partition("<main")[2]
