"""Accounts in rows, and the answers to "may X do Y on Z?"."""

import pytest

from wakelog.broker.processors.table import PROCESSORS
from wakelog.client.errors import ClientError
from wakelog.console.cluster_accounts import BrokerAccounts
from wakelog.console.views import cluster_accounts as views
from wakelog.protocol.bodies import PlainAccessConfig

ADMIN = PlainAccessConfig("administrator", admin=True)
SHOP = PlainAccessConfig("shop-service", topic_perms=["orders=PUB"], group_perms=["billing=SUB"])
OTHER_SHOP = PlainAccessConfig("shop-service", topic_perms=["orders=PUB|SUB"])
FAILED = ClientError("a refuses", "Ask as another", code=1)


def broker(
    number: int, *accounts: PlainAccessConfig, white: tuple[str, ...] = ()
) -> BrokerAccounts:
    return BrokerAccounts(f"b{number}", 0, f"b{number}:1", True, True, True, accounts, white)


def test_an_account_of_all_brokers_comes_once() -> None:
    rows = views.rows([broker(1, ADMIN, SHOP), broker(2, SHOP, ADMIN)])
    assert [(row.name, row.is_admin, row.is_apart) for row in rows] == [
        ("administrator", True, False),
        ("shop-service", False, False),
    ]
    assert rows[0].brokers == ("b1 (0)", "b2 (0)")


def test_an_account_that_differs_comes_once_for_each_form() -> None:
    rows = views.rows([broker(1, SHOP), broker(2, OTHER_SHOP), broker(3)])
    assert [(row.brokers, row.is_apart) for row in rows] == [
        (("b1 (0)",), True),
        (("b2 (0)",), True),
    ]


def test_accounts_are_found_by_their_rules() -> None:
    rows = views.rows([broker(1, ADMIN, SHOP)])
    assert [x.name for x in views.ACCOUNTS.page(rows, {"q": "orders"}).rows] == ["shop-service"]
    assert views.ACCOUNTS.page(rows, {}).total == 2


def test_a_broker_without_accounts_says_why() -> None:
    off = BrokerAccounts("b1", 0, "b1:1", True, False)
    unknown = BrokerAccounts("b2", 0, "b2:1", True)
    failed = BrokerAccounts("b3", 1, "b3:1", True, True, failure=FAILED)
    said = views.off([off, unknown, failed, broker(4, ADMIN)])
    assert [each.broker for each in said] == ["b1 (0)", "b2 (0)", "b3 (1)"]
    assert "aclEnable=true" in said[0].remedy and said[2].cause == "a refuses"


def test_white_lists_are_said_with_their_brokers() -> None:
    found = [broker(1, white=("10.0.0.*", "::1")), broker(2, white=("10.0.0.*", "::1")), broker(3)]
    assert views.white_lists(found) == [("", "b3 (0)"), ("10.0.0.*, ::1", "b1 (0), b2 (0)")]


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ({"what": "send", "account": "x"}, "Give a topic"),
        ({"what": "consume", "topic": "T"}, "Give a group"),
        ({"what": "send", "topic": "T", "from": "here"}, "here is no IP address"),
        ({"what": "send", "topic": "T", "from": "::1"}, ""),
        ({"what": "settings"}, ""),
    ],
)
def test_a_question_is_whole_or_says_what_it_lacks(query: dict[str, str], wrong: str) -> None:
    asked = views.asked(query)
    assert asked is not None and asked.wrong == wrong


def test_no_question_is_none() -> None:
    assert views.asked({}) is None and views.asked({"what": "walk"}) is None


def judged(found: list[BrokerAccounts], **query: str) -> list[views.Judged]:
    asked = views.asked(query)
    assert asked is not None and not asked.wrong
    return views.judged(found, asked)


@pytest.mark.parametrize("operation", views.OPERATIONS, ids=lambda each: each.name)
def test_an_operation_needs_what_the_table_of_requests_says(operation: views.Operation) -> None:
    assert PROCESSORS[int(operation.code)].access == operation.rules


def test_brokers_that_agree_answer_together() -> None:
    found = [broker(1, ADMIN, SHOP), broker(2, SHOP)]
    [one] = judged(found, account="shop-service", what="send", topic="orders")
    assert one.brokers == ("b1 (0)", "b2 (0)")
    assert (one.answer.is_allowed, one.answer.lines) == (True, ("topicPerms: orders=PUB",))
    [refused] = judged(found, account="shop-service", what="settings")
    assert (refused.answer.is_allowed, refused.answer.lines) == (False, ("admin: false",))
    assert "Need admin permission for request code=25" in refused.answer.remark


def test_brokers_that_differ_answer_each() -> None:
    found = [broker(1, SHOP), broker(2, OTHER_SHOP)]
    query = {"account": "shop-service", "what": "search", "topic": "orders"}
    assert [(x.brokers, x.answer.is_allowed) for x in judged(found, **query)] == [
        (("b1 (0)",), False),
        (("b2 (0)",), True),
    ]


def test_brokers_without_access_control_are_not_asked() -> None:
    off = BrokerAccounts("b1", 0, "b1:1", True, False)
    assert judged([off], account="x", what="settings") == []


def test_accounts_that_wakelog_cannot_read_are_no_permission() -> None:
    [one] = judged([broker(1, SHOP, white=("nonsense",))], account="shop-service", what="settings")
    assert not one.answer.is_allowed and "cannot be read" in one.answer.remark


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (
            {"account": "a", "what": "consume", "topic": "T", "group": "g", "from": "::1"},
            "a: consume the topic with the group (T with g) from ::1",
        ),
        ({"what": "send", "topic": "T"}, "a request without an account: send to the topic (T)"),
        ({"account": "a", "what": "settings"}, "a: change settings of brokers"),
    ],
)
def test_a_question_is_repeated_in_words(query: dict[str, str], text: str) -> None:
    asked = views.asked(query)
    assert asked is not None and asked.text == text
