"""Actions on messages, through their forms."""

from tests.console.site import Browser
from wakelog.client.sync import Producer
from wakelog.testing.embedded_broker import EmbeddedBroker


def test_a_message_is_sent_again(browser: Browser, console_broker: EmbeddedBroker) -> None:
    with Producer(console_broker.name_server, group="again") as producer:
        receipt = producer.send("again", b"twice", keys=["kept"])
    path, message_id = "/do/send-message-again", receipt.offset_message_id
    assert (
        "topic again gets 1 more message of 5 bytes" in browser.get(f"{path}?id={message_id}").text
    )
    answer = browser.submit(path, id=message_id, topic="again")
    assert answer.status == 200 and f"resent {message_id} as" in answer.text
    both = console_broker.wait_for_messages("again", count=2)
    assert [(each.body, each.keys) for each in both] == [(b"twice", ["kept"])] * 2


def test_an_id_that_no_broker_gave_is_refused(browser: Browser) -> None:
    assert "does not fit" in browser.get("/do/send-message-again?id=xyz").text
    answer = browser.get(f"/do/send-message-again?id={'7F' * 16}")
    assert "no broker of this cluster gave the id" in answer.text


def test_a_client_that_is_not_online_is_said(
    browser: Browser, console_broker: EmbeddedBroker
) -> None:
    with Producer(console_broker.name_server, group="direct") as producer:
        receipt = producer.send("direct", b"x")
    fields = {"id": receipt.offset_message_id, "topic": "direct", "group": "g", "client": "gone@1"}
    assert (
        "client gone@1 of group g consumes it now"
        in browser.get(
            "/do/consume-message?" + "&".join(f"{x}={y}" for x, y in fields.items())
        ).text
    )
    assert browser.submit("/do/consume-message", **fields).status == 409
