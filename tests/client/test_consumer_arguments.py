"""Topics, places and queues that a consumer is given are made plain, or refused by name."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.client.clusters import NAME_SERVER
from tests.client.group_cluster import two_queues
from tests.client.odd_values import REFUSED_AS_NUMBER, REFUSED_AS_TEXT, numbers_of, texts_of
from wakelog.client import Consumer, Tls
from wakelog.client.consumer_arguments import (
    Sql,
    plain_instance,
    plain_place,
    plain_queue,
    plain_start,
    read_topics,
)
from wakelog.client.errors import InvalidArgument
from wakelog.protocol.body_codec import MessageQueue, encode_body


@pytest.mark.parametrize("odd", texts_of("orders"), ids=lambda given: type(given).__name__)
def test_topics_of_any_class_are_subscribed_to_by_their_text(odd: Any) -> None:
    plain = read_topics("orders", "", version=1)
    for given in (odd, [odd], {odd: "*"}):
        found = read_topics(given, "", version=1)
        assert found == plain and {type(topic) for topic in found} == {str}
    assert read_topics({"T": odd}, "", version=1) == read_topics({"T": "orders"}, "", version=1)
    by_sql = read_topics({"T": Sql(odd)}, "", version=1)["T"]
    assert type(by_sql.sub_string) is str and by_sql.sub_string == "orders"


@pytest.mark.parametrize("odd", REFUSED_AS_TEXT, ids=lambda given: type(given).__name__)
def test_topics_that_are_no_texts_are_refused(odd: Any) -> None:
    wrong = [{"T": odd}, {"T": Sql(odd)}, [odd] if odd.__hash__ is None else {odd: "*"}]
    for given in wrong:
        with pytest.raises(InvalidArgument, match=r"^topics "):
            read_topics(given, "", version=1)


@pytest.mark.parametrize("odd", numbers_of(7), ids=lambda given: type(given).__name__)
def test_a_queue_of_odd_parts_can_go_over_the_wire(odd: Any) -> None:
    for broker_name in texts_of("b"):
        found = plain_queue(MessageQueue("T", broker_name, odd))
        assert encode_body(found) == encode_body(MessageQueue("T", "b", 7))
    assert type(plain_place(odd)) is int


def test_places_are_words_times_and_offsets() -> None:
    time = datetime(2026, 1, 2, tzinfo=UTC)
    assert plain_start(time) == plain_place(time) == time
    for odd in texts_of("first"):
        assert type(plain_start(odd)) is type(plain_place(odd)) is str
    for odd in [*REFUSED_AS_NUMBER, *REFUSED_AS_TEXT, "middle", datetime.min]:
        with pytest.raises(InvalidArgument, match=r"^start "):
            plain_start(odd)
        if type(odd).__name__ not in ("int", "int64", "Level"):
            with pytest.raises(InvalidArgument, match=r"^place "):
                plain_place(odd)


@pytest.mark.parametrize(
    "wrong", [*REFUSED_AS_TEXT, "", "../a", "a\0b"], ids=lambda given: type(given).__name__
)
def test_an_instance_is_the_name_of_a_folder(wrong: Any) -> None:
    assert plain_instance("DEFAULT") == "DEFAULT"
    with pytest.raises(InvalidArgument, match=r"^instance_name "):
        plain_instance(wrong)


UNUSED: list[tuple[str, dict[str, Any]]] = [
    ("offset_folder", {"offset_folder": "here", "topics": "T"}),
    ("instance_name", {"instance_name": "one", "topics": "T"}),
    ("allocation", {"allocation": "AVG_BY_CIRCLE", "topics": "T", "broadcast": True}),
    ("allocation", {"allocation": "AVG_BY_CIRCLE"}),
    ("start_timeout", {"start_timeout": timedelta(seconds=1)}),
    ("consume_timeout", {"consume_timeout": timedelta(1), "topics": "T", "ordered": True}),
    ("security_token", {"security_token": "token"}),
    ("key_path", {"tls": Tls(key_path="own.key")}),
]


@pytest.mark.parametrize(("name", "given"), UNUSED, ids=str)
def test_what_this_consumer_would_not_use_is_refused(name: str, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=rf"^{name} is given"):
        Consumer("h:9876", group="g", **given)


@pytest.mark.parametrize("wrong", [("T", "b", 1), "T", MessageQueue("T", "b", -1)])
def test_what_is_no_queue_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^queue is "):
        plain_queue(wrong)


@pytest.mark.parametrize("broadcast", [False, True])
@pytest.mark.parametrize(
    ("start", "where"),
    [
        ("first", "CONSUME_FROM_FIRST_OFFSET"),
        ("last", "CONSUME_FROM_LAST_OFFSET"),
        (datetime(2026, 1, 1, tzinfo=UTC), "CONSUME_FROM_TIMESTAMP"),
    ],
)
def test_brokers_hear_how_a_group_consumes(broadcast: bool, start: Any, where: str) -> None:
    given: dict[str, Any] = {"group": "g", "topics": "T", "start": start, "broadcast": broadcast}
    consumer = Consumer(NAME_SERVER, connect=two_queues().join, **given)
    [said] = consumer._consumer_data()
    model = "BROADCASTING" if broadcast else "CLUSTERING"
    assert (said.group_name, said.message_model, said.consume_from_where) == ("g", model, where)
