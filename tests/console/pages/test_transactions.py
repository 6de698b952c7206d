"""The page of transactions, over a broker with open ones and one that was given up."""

import re
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.console.site import Answer, Serving, console_of
from wakelog.client.sync import Producer
from wakelog.client.transactions import TransactionState
from wakelog.testing.embedded_broker import EmbeddedBroker, MessagesMissing

TOPIC, GROUP = "orders", "payments"
GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC"


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """A broker that gives a half message up after its second question."""
    with EmbeddedBroker(settings={"transactionCheckMax": "1"}) as broker:
        yield broker


@pytest.fixture(scope="module")
def site(broker: EmbeddedBroker) -> Iterator[Serving]:
    with console_of(broker.name_server) as serving:
        yield serving


def leave_open(broker: EmbeddedBroker, count: int) -> None:
    """Leave transactions open, beside one that is committed and one that is rolled back."""
    with Producer(broker.name_server, group=GROUP) as producer:
        states = [TransactionState.UNKNOWN] * count
        for state in (*states, TransactionState.COMMIT, TransactionState.ROLLBACK):
            with producer.transaction(TOPIC, b"half") as transaction:
                transaction.state = state


def test_what_is_open_and_what_was_given_up_is_shown_and_checked_again(
    broker: EmbeddedBroker, site: Serving
) -> None:
    browser = site.browser
    site.read()
    assert "No half message has been sent" in browser.get("/transactions").text
    leave_open(broker, 2)
    broker.advance(70)  # the first round of the check makes the topics
    broker.wait_for_messages("RMQ_SYS_TRANS_HALF_TOPIC", count=6)
    site.read()
    page = shown(site)
    assert "2 transactions are open" in page.text, page.text
    leave_open(broker, 1)  # before the check passes what the others of this call ended
    broker.wait_for_messages("RMQ_SYS_TRANS_HALF_TOPIC", count=9)
    site.read()
    page = shown(site)
    assert "3 transactions are open" in page.text, page.text
    row = page.html.partition(f'id="g-{GROUP}"')[2].partition("</tr>")[0]
    assert 'title="3"' in row and TOPIC in row
    give_up(broker, 3)
    site.read()
    page = shown(site)
    assert "No transaction is open" in page.text, page.text
    ids = re.findall(r'<tr id="u-([0-9A-F]+)"', page.html)
    assert len(ids) == 3 and f'href="/do/check-again?id={ids[0]}"' in page.html
    form = browser.get(f"/do/check-again?id={ids[0]}")
    assert f"wakelog admin resumeCheckHalfMessage -i {ids[0]}" in form.text
    assert "0 clients are online to be asked: without one it is given up again" in form.text
    done = browser.submit("/do/check-again", id=ids[0])
    assert done.status == 200, done.text
    assert f"checks {ids[0]} again" in done.text
    site.read()
    assert "1 transaction is open" in shown(site).text


def give_up(broker: EmbeddedBroker, count: int) -> None:
    """Let rounds of the check pass until `count` are given up: a busy machine misses some."""
    for _ in range(10):
        broker.advance(70)
        with suppress(MessagesMissing):
            broker.wait_for_messages(GIVEN_UP, count=count, seconds_max=2)
            return
    pytest.fail(f"the check did not give {count} half messages up in ten rounds")


def shown(site: Serving) -> Answer:
    """Return the page of a new reading."""
    site.console.reader.open_halves.forget()
    return site.browser.get("/transactions")
