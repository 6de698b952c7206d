"""Half messages in rows and sentences."""

from wakelog.client.errors import ClientError
from wakelog.console.cluster_reading import BrokerReading, ClusterReading
from wakelog.console.views import transactions
from wakelog.console.waiting import Backlog, HalfReading, OpenHalf, OpenHalves

NOW_MS = 1_000_000


def half(number: int, group: str = "payments", *, checks: int = 0) -> OpenHalf:
    born_ms = NOW_MS - 1_000 * number
    return OpenHalf("a", f"{number:032X}", "orders", group, born_ms, born_ms + 5, checks)


def part(*halves: OpenHalf, total: int = 9, ops_total: int = 4) -> OpenHalves:
    return OpenHalves("a", halves, 9, total, 4, ops_total)


def snapshot(halves: HalfReading | None, **settings: str) -> ClusterReading:
    broker = BrokerReading("c", "a", 0, "a:1", settings=settings, messages=Backlog((), halves))
    return ClusterReading(NOW_MS, brokers=[broker, BrokerReading("c", "a", 1, "a:2")])


def test_a_broker_says_how_many_are_open_and_how_often_it_asks() -> None:
    settings = {"transactionCheckInterval": "60000", "transactionCheckMax": "15"}
    read = snapshot(HalfReading(3, 12, 2), **settings)
    [row] = transactions.broker_rows(read, [part(half(1), half(2))])
    assert (row.open, row.to_check, row.given_up, row.is_whole) == (2, 9, 2, True)
    assert (row.every, row.checks_max, row.offset, row.end) == ("1 min", "15", 3, 12)
    [bare] = transactions.broker_rows(snapshot(HalfReading(0, 1, 0)), [])
    assert (bare.every, bare.checks_max, bare.open) == ("", "", 0)


def test_a_broker_that_never_had_any_has_no_row() -> None:
    assert transactions.broker_rows(snapshot(HalfReading(0, 0, 0)), []) == []
    assert transactions.broker_rows(snapshot(None), []) == []


def test_groups_come_with_what_they_left_open_the_oldest_first() -> None:
    rows = transactions.group_rows([part(half(1), half(5, "late", checks=3), half(2, checks=1))])
    assert rows == [
        transactions.OpenGroupRow("late", ("orders",), 1, NOW_MS - 5_000, 3),
        transactions.OpenGroupRow("payments", ("orders",), 2, NOW_MS - 2_000, 1),
    ]


def test_a_bounded_number_of_messages_is_shown() -> None:
    many = tuple(half(n) for n in range(99))
    oldest = transactions.oldest([part(*many)])
    assert len(oldest) == transactions.HALVES_SHOWN_MAX and oldest[0] == many[-1]
    given_up = transactions.given_up([OpenHalves("a", given_up=many)])
    assert len(given_up) == transactions.GIVEN_UP_SHOWN_MAX and given_up[0] == many[0]


def test_what_was_not_read_is_said() -> None:
    failed = OpenHalves("b", failure=ClientError("b refuses", "Ask as another"))
    said = transactions.limits([part(), part(total=1_000), part(ops_total=2_000), failed])
    assert len(said) == 3
    assert "first 9 of 1,000 half messages" in said[0]
    assert "first 4 of 2,000 ends of transactions" in said[1]
    assert said[2] == "b: b refuses"
    [row] = transactions.broker_rows(snapshot(HalfReading(0, 9, 0)), [part(total=10)])
    assert not row.is_whole


def test_a_sentence_says_how_it_stands() -> None:
    assert transactions.summary([part()], NOW_MS) == "No transaction is open"
    one = transactions.summary([part(half(65))], NOW_MS)
    assert one == "1 transaction is open; the oldest for 1 min 5 s"
    more = transactions.summary([part(half(1), half(2), total=99)], NOW_MS)
    assert more == "About 2 transactions are open; the oldest for 2 s"
