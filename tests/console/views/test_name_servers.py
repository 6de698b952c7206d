"""Name servers: where they disagree, and how they are set."""

from wakelog.client.errors import ClientError
from wakelog.console.name_servers import NameServerDetails
from wakelog.console.views import name_servers, settings
from wakelog.console.views.settings import BY_DEFAULT, CHOSEN, NOT_KNOWN, OF_HOST

BROKERS = {("a", 0): "a:1", ("a", 1): "a:2"}
FIRST = NameServerDetails("n:1", BROKERS, frozenset({"t1", "t2"}), {"listenPort": "9876"})
ALIKE = NameServerDetails("n:2", BROKERS, frozenset({"t1", "t2"}), {"listenPort": "9876"})
UNLIKE = NameServerDetails(
    "n:3",
    {("a", 0): "b:1"},
    frozenset({"t1"}),
    {"listenPort": "9877", "kvConfigPath": "/x", "new": "1"},
    {"listenPort": "9876"},
)
AWAY = NameServerDetails("n:4", failure=ClientError("n:4 does not answer", "Start it"))


def test_alike_name_servers_agree() -> None:
    assert name_servers.differences([FIRST, ALIKE]) == []
    assert "know the same brokers and topics" in name_servers.agreement([FIRST, ALIKE])
    assert "one name server" in name_servers.agreement([FIRST])
    assert name_servers.agreement([FIRST, AWAY]) == "Too few answer to compare them."


def test_each_difference_is_a_sentence() -> None:
    assert name_servers.differences([FIRST, UNLIKE, AWAY]) == [
        "broker a (0) is a:1 at n:1, b:1 at n:3",
        "broker a (1) is a:2 at n:1, unknown at n:3",
        "n:3 does not know 1 topic: t2",
    ]
    assert "they disagree" in name_servers.agreement([FIRST, UNLIKE])


def test_many_differences_are_counted() -> None:
    many = NameServerDetails("n:5", {(f"b{n:02}", 0): "b:1" for n in range(40)}, frozenset("xyz"))
    found = name_servers.differences([many, NameServerDetails("n:6", {}, frozenset())])
    assert len(found) == name_servers.DIFFERENCES_MAX + 1
    assert found[-1] == "21 more differences"
    topics = frozenset(f"t{n}" for n in range(7))
    [missing] = name_servers.differences(
        [NameServerDetails("n:5", {}, topics), NameServerDetails("n:6", {}, frozenset())]
    )
    assert missing == "n:6 does not know 7 topics: t0, t1, t2, t3, t4 and 2 more"


def test_a_row_says_how_a_name_server_stands() -> None:
    refused = NameServerDetails("n:5", failure=ClientError("x", "y", code=1))
    rows = name_servers.name_server_rows([FIRST, AWAY, refused, NameServerDetails("n:6")])
    assert [(x.address, x.state, x.brokers, x.topics) for x in rows] == [
        ("n:1", "answers", 1, 2),
        ("n:4", "no answer", None, None),
        ("n:5", "refused", None, None),
        ("n:6", "not asked yet", None, None),
    ]


def test_settings_say_where_they_come_from_and_what_waits() -> None:
    same = name_servers.setting_rows([FIRST, ALIKE])
    assert [(x.key, dict(x.values), x.origin) for x in same] == [
        ("listenPort", {"": "9876"}, BY_DEFAULT)
    ]
    rows = {x.key: x for x in name_servers.setting_rows([FIRST, UNLIKE, AWAY])}
    port = rows["listenPort"]
    assert dict(port.values) == {"n:1": "9876", "n:3": "9877"}
    assert (port.origin, port.waiting) == (CHOSEN, "9876")
    assert (rows["kvConfigPath"].origin, rows["kvConfigPath"].is_fixed) == (OF_HOST, True)
    assert (rows["new"].origin, rows["new"].waiting) == ("", None)


def test_values_are_filtered_by_key_and_value() -> None:
    table = {"orders": "broker-a:4", "bills": "broker-b:2"}
    found = name_servers.VALUES.page(sorted(table.items()), {"q": "broker-a"})
    assert (found.rows, found.total) == ([("orders", "broker-a:4")], 1)
    assert [key for key, _ in name_servers.VALUES.page(sorted(table.items()), {}).rows] == [
        "bills",
        "orders",
    ]


def test_a_setting_of_a_broker_is_by_default_chosen_or_of_its_host() -> None:
    assert settings.broker_origin("fileReservedTime", "72") == BY_DEFAULT
    assert settings.broker_origin("fileReservedTime", "48") == CHOSEN
    assert settings.broker_origin("storePathRootDir", "/") == OF_HOST
    assert settings.broker_origin("noSuchKey", "1") == NOT_KNOWN


def test_name_servers_that_differ_were_set() -> None:
    assert settings.name_server_origin("listenPort", ["9876", "9876"]) == BY_DEFAULT
    assert settings.name_server_origin("listenPort", ["9876", "9877"]) == CHOSEN
    assert settings.name_server_origin("kvConfigPath", ["/x"]) == OF_HOST
