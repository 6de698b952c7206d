"""Batches of pulled bytes equal what the object API says of the same messages."""

import zlib
from collections.abc import Sequence
from typing import Any

import pandas
import polars
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.client.group_cluster import SETTLER
from tests.fakes.records import record
from wakelog.client.arrow import schema, to_table
from wakelog.client.arrow_columns import LeftToMessages, to_batch
from wakelog.client.consumer_message import ConsumerMessage, decode_messages
from wakelog.client.pulled_rows import scan
from wakelog.compiled.library import CHOICE
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.sys_flag import (
    MESSAGE_BORN_HOST_V6,
    MESSAGE_COMPRESSED,
    MESSAGE_STORE_HOST_V6,
)

needs_library = pytest.mark.skipif(CHOICE.library is None, reason=str(CHOICE))
QUEUE = MessageQueue("T", "a", 0)
NAMES = st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "a", "é", ""])
TEXTS = st.text(st.sampled_from("ab \1é\u4e2d"), max_size=4)
TIMES = st.integers(-(1 << 62), 1 << 62)
V4, V6 = ("1.2.3.4", 5), ("2001:db8::1", 5)
MAPPED = ("::ffff:1.2.3.4", 5)


@st.composite
def a_record(draw: Any) -> bytes:
    pairs = draw(st.lists(st.tuples(NAMES, TEXTS), max_size=5))
    text = "\2".join(f"{name}\1{value}" for name, value in pairs)
    body, sys_flag = draw(st.binary(max_size=20)), 0
    if draw(st.booleans()):
        body, sys_flag = zlib.compress(body), MESSAGE_COMPRESSED
    born, store = draw(st.sampled_from([V4, V6])), draw(st.sampled_from([V4, V6, MAPPED]))
    sys_flag |= MESSAGE_BORN_HOST_V6 if born is V6 else 0
    sys_flag |= MESSAGE_STORE_HOST_V6 if store is not V4 else 0
    return record(
        draw(st.integers(0, 1 << 62)),
        text.encode(),
        queue_offset=draw(st.integers(0, 1 << 62)),
        born_timestamp_ms=draw(TIMES),
        store_timestamp_ms=draw(TIMES),
        flag=draw(st.integers(-(1 << 31), (1 << 31) - 1)),
        reconsume_times=draw(st.integers(0, 3)),
        body=body,
        sys_flag=sys_flag,
        born_host=born,
        store_host=store,
    )


def batch_of(pulls: Sequence[bytes]) -> pyarrow.RecordBatch:
    assert CHOICE.library is not None
    rows = [scan(CHOICE.library, pull, QUEUE, frozenset(), 9) for pull in pulls]
    return to_batch(CHOICE.library, [each for each in rows if each is not None], "", schema())


def messages_of(pulls: Sequence[bytes]) -> list[ConsumerMessage]:
    return [x for pull in pulls for x in decode_messages(pull, QUEUE, SETTLER, frozenset())]


@needs_library
@given(st.lists(st.lists(a_record(), min_size=1, max_size=4).map(b"".join), min_size=1, max_size=3))
def test_a_batch_has_what_messages_have(pulls: list[bytes]) -> None:
    batch = batch_of(pulls)
    batch.validate(full=True)
    assert pyarrow.Table.from_batches([batch]) == to_table(messages_of(pulls))


@needs_library
@given(st.lists(a_record(), min_size=1, max_size=4).map(b"".join))
def test_polars_and_pandas_have_the_values_of_the_object_api(pull: bytes) -> None:
    messages, batch = messages_of([pull]), batch_of([pull])
    frame, other = polars.from_arrow(batch), batch.to_pandas(maps_as_pydicts="strict")
    assert isinstance(frame, polars.DataFrame) and isinstance(other, pandas.DataFrame)
    expected: dict[str, list[Any]] = {
        "topic": [one.topic for one in messages],
        "brokerName": [one.broker for one in messages],
        "queueId": [one.queue_id for one in messages],
        "queueOffset": [one.queue_offset for one in messages],
        "msgId": [one.message_id for one in messages],
        "offsetMsgId": [one.offset_message_id for one in messages],
        "tags": [one.tags or None for one in messages],
        "keys": [one.properties.get("KEYS") for one in messages],
        "flag": [one.record.flag for one in messages],
        "body": [one.body for one in messages],
        "reconsumeTimes": [one.reconsume_times for one in messages],
    }
    assert {name: frame[name].to_list() for name in expected} == expected
    assert {name: other[name].tolist() for name in expected} == expected
    stored = [one.record.store_timestamp_ms for one in messages]
    assert frame["storeTimestamp"].to_physical().to_list() == stored
    assert other["storeTimestamp"].astype("int64").tolist() == stored
    maps = [dict(one.properties) for one in messages]
    assert other["properties"].tolist() == maps
    assert frame["properties"].to_list() == maps


@needs_library
@pytest.mark.parametrize(
    "odd",
    [
        record(0, b"a\1\xff"),
        record(0, b"TAGS\1\xff"),
        record(0, b"UNIQ_KEY\1\xff"),
        record(0, body=b"no zlib", sys_flag=MESSAGE_COMPRESSED),
    ],
)
def test_what_has_no_plain_form_is_left_to_messages(odd: bytes) -> None:
    with pytest.raises(LeftToMessages):
        batch_of([record(0), odd])


@needs_library
def test_a_batch_of_many_pulls_has_their_bodies_in_order() -> None:
    bodies = [b"%d" % n * (n % 7) for n in range(300)]
    pulls = [record(n, queue_offset=n, body=body) for n, body in enumerate(bodies)]
    batch = batch_of(pulls)
    assert batch["body"].to_pylist() == bodies
    assert batch["queueOffset"].to_pylist() == list(range(300))
