"""The console's pages of what waits, and of access control, at 4.9.3's broker and at ours."""

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from tests.compat.clusters import Cluster, Starter, local_cluster, real_cluster
from tests.compat.driver import wait_until
from tests.compat.together import all_entered
from tests.console.site import Answer, NoForm, Serving, console_of
from wakelog.client.admin import open_admin
from wakelog.client.received import ReceivedMessage
from wakelog.client.sync import Producer
from wakelog.client.transactions import TransactionState
from wakelog.client.waiting import entries_at, message_at
from wakelog.console.waiting import ended_by
from wakelog.network.signing import Credentials
from wakelog.protocol.names import TRANS_OP_HALF_TOPIC

pytestmark = [pytest.mark.java, pytest.mark.slow]

ADMIN = Credentials("admin-key", "admin-secret")
SECRET = "secret-of-the-shop"
TOPIC, GROUP = "orders", "payments"
ACCOUNTS = """
globalWhiteRemoteAddresses: [10.10.103.*]
accounts:
- {accessKey: admin-key, secretKey: admin-secret, admin: true}
- {accessKey: shop-key, secretKey: shop-secret, topicPerms: [orders=PUB]}
"""
STARTERS: dict[str, Starter] = {"real": real_cluster, "wakelog": local_cluster}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Cluster]]:
    """Start a broker of each kind with access control; it asks about transactions each second."""
    folder = tmp_path_factory.mktemp("waiting")
    settings = {
        "aclEnable": "true",
        "messageDelayLevel": "1s 1h",
        "transactionCheckInterval": "1000",
        "transactionTimeOut": "500",
        "transactionCheckMax": "1",
    }
    contexts = {}
    for kind, start in STARTERS.items():
        home = folder / kind / "broker"
        write_accounts(home)
        given = {**settings, "rocketmqHome": str(home)}
        contexts[kind] = start(folder / kind, settings=given)
    with all_entered(contexts) as started:
        yield started


def write_accounts(home: Path) -> None:
    path = home / "conf" / "plain_acl.yml"
    path.parent.mkdir(parents=True)
    path.write_text(ACCOUNTS)


@pytest.fixture(scope="module", params=STARTERS)
def site(request: pytest.FixtureRequest, both: Mapping[str, Cluster]) -> Iterator[Serving]:
    """Yield a console of each, which signs as an administrator."""
    with console_of(both[request.param].name_server, credentials=ADMIN) as serving:
        yield serving


def page(site: Serving, path: str) -> Answer:
    """Return a page of a new reading."""
    site.read()
    reader = site.console.reader
    for shared in (reader.next_due, reader.open_halves, reader.accounts):
        shared.forget()
    return site.browser.get(path)


def until(site: Serving, path: str, holds: Callable[[Answer], bool], what: str) -> Answer:
    """Return a page as soon as something is so."""
    wait_until(lambda: holds(page(site, path)), what=what)
    return page(site, path)


def producer_of(site: Serving) -> Producer:
    key, secret, _ = ADMIN
    name_server = site.console.name_server
    return Producer(name_server, group=GROUP, access_key=key, secret_key=secret)


def test_delayed_messages_are_shown_and_those_delivered_are_not(site: Serving) -> None:
    with producer_of(site) as producer:
        for _ in range(6):
            producer.send(TOPIC, b"soon", delay=timedelta(seconds=1))
        for number in range(3):
            producer.send(TOPIC, b"late", delay=timedelta(hours=1), keys=f"key-{number}")
    answer = until(
        site,
        "/delayed",
        lambda x: "3 delayed messages wait; the next is due in" in x.text,
        what="delivered",
    )
    assert answer.html.count('<tr id="d-') == 3 and "key-2" in answer.text
    rules = [each.rule for each in site.console.reader.findings]
    assert "delayed overdue" not in rules
    row = answer.html.partition('-2">')[2].partition("</tr>")[0]
    assert 'title="3"' in row and "1 h" in row


def test_half_messages_are_shown_until_they_are_ended_or_given_up(site: Serving) -> None:
    with producer_of(site) as producer:
        for state in (TransactionState.UNKNOWN, TransactionState.COMMIT):
            with producer.transaction(TOPIC, b"half") as transaction:
                transaction.state = state
    ended = until(
        site,
        "/transactions",
        lambda x: "No transaction is open" in x.text and 'id="u-' in x.html,
        what="given up",
    )
    [message_id] = re.findall(r'<tr id="u-([0-9A-F]+)"', ended.html)
    row = ended.html.partition(f'id="u-{message_id}"')[2].partition("</tr>")[0]
    assert TOPIC in row and GROUP in row
    done = site.browser.submit("/do/check-again", id=message_id)
    assert done.status == 200, done.text
    until(
        site,
        "/transactions",
        lambda x: len(re.findall(r'<tr id="u-', x.html)) == 2,
        what="given up again",
    )

    assert 1 in asyncio.run(ended_at(site.console.name_server))  # the one that was committed


async def ended_at(name_server: str) -> set[int]:
    """Return which half messages the broker's op messages end, by the console's requests."""
    key, secret, _ = ADMIN
    async with open_admin(name_server, access_key=key, secret_key=secret) as admin:
        [address] = await admin.masters("DefaultCluster")
        found = await entries_at(admin, address, TRANS_OP_HALF_TOPIC, 0, 0, 8)
        places = [each.physic_offset for each in found.entries]
        records = [await message_at(admin, address, place) for place in places]
    return ended_by(map(ReceivedMessage, records))


@pytest.fixture
def read_again(
    request: pytest.FixtureRequest, site: Serving, both: Mapping[str, Cluster]
) -> Callable[[], None]:
    """Have 4.9.3 read all accounts again, as it does when there is one file more.

    It looks for changes each 5 s. Of a changed file it keeps only accounts that it did not know,
    so it loses the others, and refuses each request with a NullPointerException.
    Source: PlainPermissionManager.load(aclFilePath).
    """
    kind = request.node.callspec.params["site"]
    folder = both[kind].store.parent / "broker" / "conf" / "acl"

    def add_a_file() -> None:
        if kind != "real":
            return
        folder.mkdir(exist_ok=True)
        path = folder / f"{time.monotonic_ns()}.new"
        path.write_text("globalWhiteRemoteAddresses: []\n")
        path.rename(path.with_suffix(".yml"))
        wait_until(lambda: "shop-key" in page(site, "/access").text, what="accounts again")

    return add_a_file


def test_accounts_are_shown_asked_about_and_changed(
    site: Serving, read_again: Callable[[], None]
) -> None:
    answer = page(site, "/access")
    assert "shop-key" in answer.text and "orders=PUB" in answer.text
    assert "10.10.103.*" in answer.text and "plain_acl.yml" in answer.text
    assert "-secret" not in answer.html
    for what, word in (("send", "Yes, at"), ("search", "No, at")):
        said = page(site, f"/access?account=shop-key&what={what}&topic=orders").text
        assert word in said and "Decided by topicPerms: orders=PUB" in said
    browser = site.browser
    fields = {"cluster": "DefaultCluster", "account": "another-shop"}
    made: list[Answer] = []

    def is_made() -> bool:
        with suppress(NoForm):
            token = browser.token("/do/create-account?cluster=DefaultCluster")
            given = {**fields, "token": token, "secret": SECRET, "topics": "orders=SUB"}
            made.append(browser.post("/do/create-account", given))
            if made[-1].status == 200 and "another-shop" in page(site, "/access").text:
                return True
        read_again()
        return False

    wait_until(is_made, what="the account")

    def is_deleted() -> bool:
        with suppress(NoForm):
            answer = browser.submit("/do/delete-account", **fields, typed="another-shop")
            if answer.status == 200:
                return True
        read_again()
        return False

    wait_until(is_deleted, what="the deletion")
    wait_until(lambda: "another-shop" not in page(site, "/access").text, what="deleted")
    entries = json.dumps([each._asdict() for each in site.console.audit.entries])
    assert SECRET not in made[-1].html and SECRET not in entries
