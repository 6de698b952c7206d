"""Names, messages, traces and URLs of an attacker: shown as text, bounded, and never an error."""

import re
from collections.abc import Iterator
from urllib.parse import quote, urlencode

import pytest

from tests.console.site import Browser, console_of
from wakelog.client.admin import Admin
from wakelog.client.received import ReceivedMessage
from wakelog.client.sync import Producer
from wakelog.console import reader as reader_module
from wakelog.console.accounts import ConsoleRole
from wakelog.console.actions.table import ACTIONS
from wakelog.console.cluster_reading import ClusterReading, GroupReading, read_cluster
from wakelog.console.pages.app import PAGES
from wakelog.console.pages.site import make_templates
from wakelog.console.views.messages import CELL_LENGTH_MAX
from wakelog.protocol.bodies import Connection, ConsumerConnection, SubscriptionGroupConfig
from wakelog.protocol.names import TRACE_TOPIC
from wakelog.testing.embedded_broker import EmbeddedBroker

TOPIC = "hostile"
SCRIPT = '"><script>alert(1)</script>'
HIDDEN = "\u202egnp.exe\r\n\x1b[2J\u2066"
KEY = "victim"
LONG = "9" * 5_000
HUGE = "9" * 18

VALUES = re.compile(r' (?:value|data-live)="[^"]*"|<textarea.*?</textarea>', re.DOTALL)
"""What has to come back as it was, and is nowhere else."""

TEXTS = (
    SCRIPT,
    HIDDEN,
    "%0d%0aset-cookie:x=1",
    "../../../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "{{ 7*7 }}{% raw %}",
    "=cmd|' /C calc'!A0",
    "--help",
    "\u00fc\u4e2d\U0001f600",
    b"\xed\xa0\x80\xff\xfe",
    "x" * 8_000,
    "&".join(["a"] * 3_000),
    "(" * 1_000,
    LONG,
    "-1",
    "\x00",
)


@pytest.fixture(scope="module")
def messages(console_broker: EmbeddedBroker) -> Iterator[list[ReceivedMessage]]:
    console_broker.create_topic(TOPIC, queues=1)
    bodies = [
        SCRIPT.encode(),
        HIDDEN.encode() + b"\xff\xfe\x80",
        b"x" * (1 << 20),
        b"[" * 100_000,
        b"{" + b'"a":{' * 5_000,
        b"[" + b"1e999999," * 20_000 + b"1]",
        b"0" * (3 << 20),
    ]
    names = {"<b>": SCRIPT, "hidden": HIDDEN, "long": "y" * 20_000}
    with Producer(console_broker.name_server, group="attackers") as producer:
        for body in bodies:
            producer.send(TOPIC, body, tags="t" * 300, keys=["k" * 9_000], properties=names)
        notes = [
            f"Pub\x01{HUGE}\x01r\x01{SCRIPT}\x01T\x01{KEY}\x01\x01{KEY}\x01h\x015\x011\x010\x01true\x02",
            f"Pub\x01{LONG}\x01r\x01g\x01T\x01{KEY}\x01\x01{KEY}\x01h\x015\x011\x010\x01true\x02",
            f"SubAfter\x01r\x01{KEY}\x01-{HUGE}\x01true\x01{KEY}\x010\x01-{HUGE}\x01{HIDDEN}\x02",
            "SubBefore" + "\x01" * 50 + "\x02" * 50,
        ]
        for note in notes:
            producer.send(TRACE_TOPIC, note.encode(), keys=[KEY])
    console_broker.wait_for_messages(TOPIC, count=len(bodies))
    console_broker.wait_for_messages(TRACE_TOPIC, count=len(notes))
    yield console_broker.messages(TOPIC)


def check(browser: Browser, path: str) -> str:
    answer = browser.get(path)
    assert answer.status < 500, (path[:200], answer.text[:500])
    assert "<script>alert" not in answer.html, path[:200]
    shown = VALUES.sub("", answer.html)
    assert not {"\u202e", "\u2066", "\x1b", "\x00"} & set(shown), path[:200]
    assert not any(x == "x" for x in answer.headers.get_all("set-cookie", ()))
    return answer.html


def test_the_pages_of_hostile_messages_are_text_and_small(
    browser: Browser, messages: list[ReceivedMessage]
) -> None:
    for message in messages:
        for tab in ("", "text", "json", "hex", "stored"):
            html = check(browser, f"/messages/{message.offset_message_id}?body={tab}")
            assert len(html) < 2 << 20
    html = check(browser, f"/topics/{TOPIC}/messages")
    assert len(html) < 100_000 and "t" * (CELL_LENGTH_MAX + 1) not in html
    check(browser, f"/messages?topic={TOPIC}&text=x&sql=" + quote("hidden = 'x'"))


def test_hostile_notes_hide_no_trace_and_raise_nothing(
    browser: Browser, messages: list[ReceivedMessage]
) -> None:
    for query in (f"id={KEY}", f"key={KEY}"):
        html = check(browser, f"/trace?{query}")
        assert "sent" in html and "consumed" in html


@pytest.mark.parametrize("is_everywhere", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("number", range(len(TEXTS)))
def test_no_text_in_a_url_is_an_error_or_more_than_text(
    browser: Browser, number: int, is_everywhere: bool
) -> None:
    """Each day each page gets each text, at one of three places; each page has all places."""
    text = TEXTS[number]
    names = ("q", "sort", "page", "tab", "id", "topic", "key", "from", "to", "tag", "sql", "text",
             "broker", "queue", "offset", "order", "body", "all", "group", "cluster")  # fmt: skip
    part = quote(text, safe="")[:3_000]
    query = "&".join(f"{x}={part[:399]}" for x in names)
    for count, row in enumerate(PAGES):
        if row.path.endswith("/tail"):
            continue
        path = re.sub(r"\{[^}]+\}", lambda _: part, row.path)
        places = (path, f"{path}?{query}", f"{path}?{quote(text, safe='&')[:6_000]}")
        for each in places if is_everywhere else [places[(number + count) % len(places)]]:
            check(browser, each)


@pytest.mark.parametrize("number", range(len(TEXTS)))
def test_no_text_in_a_form_is_an_error(
    request: pytest.FixtureRequest, browser: Browser, number: int
) -> None:
    """Each day each form gets a quarter of the texts; all are in more forms than one."""
    text, apart = TEXTS[number], 1 if request.config.getoption("--long") else 4
    token = browser.token("/do/create-topic?topic=x&cluster=DefaultCluster&queues=1")
    for name, action in list(ACTIONS.items())[number % apart :: apart]:
        fields = {each.name: text for each in action.fields}
        check(browser, f"/do/{name}?{urlencode(fields)[:10_000]}")
        answer = browser.send(f"/do/{name}", urlencode({"token": token, **fields, "typed": text}))
        assert answer.status in (200, 409, 422), (name, answer.text[:500])
        assert "<script>alert" not in answer.html


@pytest.mark.parametrize("more", ["", "/../x%2f"])
def test_names_that_clients_choose_are_text_on_every_page(
    console_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    name = f"{SCRIPT}{HIDDEN}?#&{more}"

    async def read(
        admin: Admin, now_ms: int, before: ClusterReading | None = None
    ) -> ClusterReading:
        found = await read_cluster(admin, now_ms, before)
        config = SubscriptionGroupConfig(name)
        group = found.groups[name] = GroupReading([config])
        group.clients = ConsumerConnection([Connection(name, name)])
        for broker in found.brokers:
            broker.groups = {**broker.groups, name: config}
        return found

    monkeypatch.setattr(reader_module, "read_cluster", read)
    with console_of(console_broker.name_server) as console:
        browser = console.browser
        for path in ("/groups", "/clients", "/search?q=script"):
            assert "\\u202egnp.exe" in check(browser, path), path
        for path in ("/", "/dead-letters"):
            check(browser, path)
        for tab in ("queues", "members", "subscriptions", "configuration"):
            html = check(browser, f"/groups/{quote(name, safe='')}?tab={tab}")
            assert "\\u202egnp.exe" in html, tab
        member = check(browser, f"/groups/{quote(name, safe='')}/members/{quote(name, safe='')}")
        assert "\\u202egnp.exe" in member
        check(browser, f"/dead-letters/{quote(name, safe='')}")


def test_a_name_that_cannot_be_typed_is_confirmed_as_it_is_shown(browser: Browser) -> None:
    fields = {"group": "a\u202eb", "cluster": "DefaultCluster"}
    token = browser.token("/do/create-topic?topic=x&cluster=DefaultCluster&queues=1")
    for typed, is_confirmed in (("a\\u202eb", True), ("a\u202eb", True), ("ab", False)):
        answer = browser.post("/do/delete-group", {"token": token, **fields, "typed": typed})
        assert (answer.status != 422) == is_confirmed, typed


def test_a_value_of_a_form_comes_back_as_it_was() -> None:
    template = make_templates().from_string('<p>{{ x }}</p><input value="{{ x | e }}">')
    assert template.render(x="a\u200db\r<") == (
        '<p>a\\u200db\\x0d&lt;</p><input value="a\u200db\r&lt;">'
    )


def test_static_files_lead_nowhere_else(browser: Browser) -> None:
    for path in ("..%2fserve.py", "%2e%2e/serve.py", "../serve.py", "%2fetc%2fpasswd", "a%00b"):
        assert browser.get(f"/static/{path}").status == 404, path


def test_every_page_but_the_login_is_for_those_with_a_role() -> None:
    assert {row.path for row in PAGES if row.role is ConsoleRole.NONE} == {"/login", "/logout"}


def test_a_large_body_is_a_file_with_a_plain_name(
    browser: Browser, messages: list[ReceivedMessage]
) -> None:
    large = messages[-1]
    assert len(large.body) == 3 << 20
    answer = browser.get(f"/messages/{large.offset_message_id}/body")
    assert len(answer.html) == 3 << 20
    assert answer.headers["content-disposition"].endswith('.bin"')
