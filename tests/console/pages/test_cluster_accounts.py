"""The page of access control, over a broker with it and over one without."""

import json
from collections.abc import Iterator

import pytest

from tests.console.site import Answer, Browser, Serving, console_of
from wakelog.network.signing import Credentials
from wakelog.testing.embedded_broker import EmbeddedBroker

ACCOUNTS = """
globalWhiteRemoteAddresses: [127.0.0.1]
accounts:
- {accessKey: admin-key, secretKey: admin-secret, admin: true}
"""
ADMIN = Credentials("admin-key", "admin-secret")
SECRET = "hush-hush-secret"
FIELDS = {
    "cluster": "DefaultCluster",
    "account": "shop-service",
    "topics": "orders=PUB|SUB\r\nlogs=SUB",
    "groups": "billing=SUB",
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A console that signs as an administrator, of a broker with access control."""
    folder = tmp_path_factory.mktemp("guarded")
    accounts = folder / "conf" / "plain_acl.yml"
    accounts.parent.mkdir()
    accounts.write_text(ACCOUNTS)
    settings = {"aclEnable": "true", "rocketmqHome": str(folder)}
    with (
        EmbeddedBroker(settings=settings) as broker,
        console_of(broker.name_server, credentials=ADMIN) as console,
    ):
        console.read()
        yield console


def page(console: Serving, query: str = "") -> Answer:
    console.console.reader.accounts.forget()
    return console.browser.get(f"/access{query}")


def make_account(console: Serving, **more: str) -> Answer:
    browser = console.browser
    token = browser.token("/do/create-account?cluster=DefaultCluster")
    return browser.post("/do/create-account", {**FIELDS, "token": token, **more})


def test_a_broker_without_access_control_says_how_to_turn_it_on(
    browser: Browser, console: Serving
) -> None:
    console.read()
    answer = browser.get("/access")
    assert answer.status == 200
    assert "it has no access control" in answer.text and "aclEnable=true" in answer.text
    assert "plain_acl.yml" in answer.text and '<form class="find"' not in answer.html


def test_accounts_and_white_addresses_are_shown_without_secrets(guarded: Serving) -> None:
    answer = page(guarded)
    assert "admin-key administrator" in answer.text
    assert "admin-secret" not in answer.html
    assert "127.0.0.1" in answer.text and "plain_acl.yml" in answer.text


def test_an_account_is_made_asked_about_and_deleted(guarded: Serving) -> None:
    made = make_account(guarded, secret=SECRET)
    assert made.status == 200, made.text
    command = (
        "wakelog admin updateAclConfig -c DefaultCluster -a shop-service --secretKey=... "
        "-t 'orders=PUB|SUB,logs=SUB' -g billing=SUB -m false"
    )
    assert command in made.text
    answer = page(guarded)
    assert "shop-service" in answer.text and "orders=PUB|SUB, logs=SUB" in answer.text
    yes = page(guarded, "?account=shop-service&what=send&topic=orders")
    assert "Yes, at" in yes.text and "Decided by topicPerms: orders=PUB|SUB" in yes.text
    no = page(guarded, "?account=shop-service&what=send&topic=logs")
    assert "No, at" in no.text and "Decided by topicPerms: logs=SUB" in no.text
    assert "No default permission for topic:logs" in no.text
    admin = page(guarded, "?account=shop-service&what=settings")
    assert "Decided by admin: false" in admin.text
    nothing = page(guarded, "?account=shop-service&what=send")
    assert "Give a topic" in nothing.text
    fields = {"cluster": "DefaultCluster", "account": "shop-service"}
    browser = guarded.browser
    form = browser.get("/do/delete-account?cluster=DefaultCluster&account=shop-service")
    assert "an account with 3 rules" in form.text
    assert browser.submit("/do/delete-account", **fields).status == 422
    gone = browser.submit("/do/delete-account", **fields, typed="shop-service")
    assert gone.status == 200, gone.text
    assert "shop-service" not in page(guarded).text


def test_a_secret_is_on_no_page_and_in_no_line_of_the_audit(guarded: Serving) -> None:
    answers = [
        make_account(guarded, secret=SECRET),
        make_account(guarded, secret=SECRET, topics="no rule"),
        make_account(guarded, secret="short"),
        make_account(guarded, secret=SECRET, white="nonsense"),
        make_account(guarded, secret=SECRET, cluster="nowhere"),
        page(guarded),
        guarded.browser.get("/audit"),
        guarded.browser.get(f"/do/create-account?secret={SECRET}"),
    ]
    assert [each.status for each in answers[:5]] == [200, 422, 422, 409, 409]
    for number, answer in enumerate(answers):
        assert SECRET not in answer.html and 'short"' not in answer.html, number
    entries = guarded.console.audit.entries
    assert len(entries) >= 3
    assert SECRET not in json.dumps([each._asdict() for each in entries])


def test_white_addresses_are_changed_after_it_was_said_what_that_does(guarded: Serving) -> None:
    browser = guarded.browser
    fields = {"cluster": "DefaultCluster", "addresses": "127.0.0.1, 10.9.0.*"}
    form = browser.get("/do/change-white-addresses?cluster=DefaultCluster&addresses=10.9.0.*")
    assert "adds 10.9.0.*, removes 127.0.0.1" in form.text
    done = browser.submit("/do/change-white-addresses", **fields)
    assert done.status == 200, done.text
    assert "127.0.0.1, 10.9.0.*" in page(guarded).text
    asked = page(guarded, "?what=send&topic=orders&from=10.9.0.7")
    assert "Yes, at" in asked.text
    assert "Decided by globalWhiteRemoteAddresses: 10.9.0.*" in asked.text


def test_an_account_is_changed_with_the_fields_that_it_has(guarded: Serving) -> None:
    assert make_account(guarded, secret=SECRET, admin="true").status == 200
    form = guarded.browser.get(
        "/do/change-account?cluster=DefaultCluster&account=shop-service&admin=true"
    )
    assert 'name="admin" value="true" checked' in form.html
    assert 'class="wrong"' not in form.html
