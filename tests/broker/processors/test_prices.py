"""Each request of the table at the bounds of its body, and beyond."""

import pytest

from tests.broker.harness import Harness, send_fields, subscription
from wakelog.broker.decision import WriteLine
from wakelog.broker.processors.table import PROCESSORS
from wakelog.protocol.codes import RequestCode

PARSED = sorted(code for code, row in PROCESSORS.items() if row.price.entries_max is not None)


@pytest.mark.parametrize("code", PARSED)
def test_a_body_beyond_its_bounds_is_refused_with_the_bound(harness: Harness, code: int) -> None:
    price = PROCESSORS[code].price
    assert price.entries_max is not None
    asked = [
        (b" ", "bytes", price.body_bytes_max),
        (b",", "entries", price.entries_max),
    ]
    for unit, name, limit in asked:
        refused = harness.ask(code, body=unit * (limit + 1))
        remark = f"the body has {limit + 1} {name}, at most {limit} are allowed"
        assert (refused.code, refused.remark) == (1, remark)
    lines = [line for line in harness.instructions() if isinstance(line, WriteLine)]
    assert [line.values["code"] for line in lines] == [code, code]


def test_the_factor_of_the_configuration_multiplies_the_bounds() -> None:
    body = b"{" + b" " * 3_000_000 + b"}"
    assert Harness().ask(RequestCode.HEART_BEAT, body=body).code == 1
    assert Harness(requestLimitFactor="2").ask(RequestCode.HEART_BEAT, body=body).code == 0


def test_the_body_of_a_message_has_the_bound_of_the_store(harness: Harness) -> None:
    harness.send("T")
    assert harness.send("T", b"," * 3_000_000).code == 0


def test_a_thousand_subscriptions_of_many_tags_are_within_the_bounds(harness: Harness) -> None:
    tags = " || ".join(f"tag-{number}" for number in range(20))
    subscriptions = [subscription(f"topic-{number}", tags) for number in range(1_000)]
    assert harness.beat("g", *subscriptions).code == 0


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE_V2,
    ],
)
def test_properties_that_no_record_can_hold_are_not_read(harness: Harness, code: int) -> None:
    harness.send("T")
    pairs = "\x02".join(f"k{number}\x01v" for number in range(20_000))
    answer = harness.ask(code, send_fields("T", i=pairs), b"b")
    assert answer.code == 13
