"""Offsets, times and groups become bounds, and the errors of messages that are gone."""

import json
from pathlib import Path

import pytest

from tests.fakes.records import STORE_MS, LogBytes, properties
from tests.golden_stores import open_golden
from tests.spark.logs import columns, query_rows, write_segments
from wakelog.spark.errors import DataLost, OptionError

SCHEMA = columns("topic", "queueId", "queueOffset", "storeTimestamp")


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """Make a log alone: queue 0 of A and B hold offsets 5 to 8, a message every 10 ms."""
    log = LogBytes(segment_bytes=512)
    for i in range(8):
        log.add(
            properties(TAGS="t"),
            topic="AB"[i % 2],
            queue_offset=5 + i // 2,
            store_timestamp_ms=STORE_MS + 10 * i,
        )
    return str(write_segments(tmp_path / "bare", log))


def offsets(**options: str) -> list[tuple[str, int]]:
    return [(row["topic"], row["queueOffset"]) for row in query_rows(SCHEMA, None, **options)]


QUEUE = '{"G":[0]}'
ALL = [(topic, offset) for offset in (5, 6, 7, 8) for topic in "AB"]

CASES: dict[str, tuple[dict[str, str], list[tuple[str, int]]]] = {
    "nothing said": ({}, ALL),
    "earliest": ({"startingOffsets": "Earliest"}, ALL),
    "latest": ({"startingOffsets": "latest"}, []),
    "an offset": ({"startingOffsets": '{"A":{"0":7}}', "topic": "A"}, [("A", 7), ("A", 8)]),
    "of a broker": ({"startingOffsets": '{"A":{"bare":{"0":8}}}', "topic": "A"}, [("A", 8)]),
    "others from the begin": ({"startingOffsets": '{"A":{"0":8}}'}, [*ALL[1::2][:3], *ALL[6:]]),
    "words for offsets": ({"startingOffsets": '{"A":{"0":-1},"B":{"0":-2}}'}, ALL[1::2]),
    "an end": ({"endingOffsets": '{"A":{"0":6},"B":{"0":5}}'}, [("A", 5)]),
    "an end for one": ({"endingOffsets": '{"A":{"0":-1},"B":{"0":6}}'}, [*ALL[:3], *ALL[4::2]]),
    "both": (
        {"startingOffsets": '{"A":{"0":6}}', "endingOffsets": '{"A":{"0":8}}', "topic": "A"},
        [("A", 6), ("A", 7)],
    ),
    "a time": ({"startingTimestamp": str(STORE_MS + 51)}, ALL[6:]),
    "a time that is a message's": ({"startingTimestamp": str(STORE_MS + 50)}, ALL[5:]),
    "before all": ({"startingTimestamp": "1"}, ALL),
    "to a time": ({"endingTimestamp": str(STORE_MS + 30)}, ALL[:3]),
    "to the future": ({"endingTimestamp": str(STORE_MS + 1000)}, ALL),
    "a time wins": (
        {"startingTimestamp": str(STORE_MS + 70), "startingOffsets": "latest"},
        ALL[7:],
    ),
    "times by queue": (
        {
            "startingOffsetsByTimestamp": f'{{"A":{{"0":{STORE_MS + 41}}}}}',
            "endingOffsetsByTimestamp": f'{{"B":{{"0":{STORE_MS + 30}}}}}',
        },
        [("B", 5), ("A", 8)],
    ),
    "after all, with the strategy latest": (
        {
            "startingTimestamp": str(STORE_MS + 1000),
            "startingOffsetsByTimestampStrategy": "latest",
        },
        [],
    ),
    "expired, without failOnDataLoss": (
        {"startingOffsets": '{"A":{"0":2}}', "topic": "A", "failOnDataLoss": "false"},
        ALL[::2],
    ),
    "cut off, without failOnDataLoss": (
        {"startingOffsets": '{"A":{"0":99}}', "topic": "A", "failOnDataLoss": "false"},
        [],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bounds_over_a_log_alone(name: str, bare: str) -> None:
    options, expected = CASES[name]
    assert offsets(path=bare, **options) == expected


@pytest.mark.parametrize("time", [bytes(8), b"\x7f" * 8], ids=["never", "far off"])
@pytest.mark.parametrize("damaged", [0, 1, 2])
def test_a_segment_whose_first_record_is_damaged_hides_none_before_it(
    damaged: int, time: bytes, tmp_path: Path
) -> None:
    log = LogBytes(segment_bytes=512)
    for i in range(12):
        log.add(queue_offset=i, store_timestamp_ms=STORE_MS + 10 * i)
    firsts = [next(x for x in log.offsets if x >= begin) for begin in (0, 512, 1024)]
    log.damage(firsts[damaged] + 56, time)
    log.damage(firsts[damaged] + 4, b"\0")
    path = str(write_segments(tmp_path / "b", log))
    for i in range(12):
        sound = [("T", k) for k in range(i, 12) if log.offsets[k] != firsts[damaged]]
        assert offsets(path=path, startingTimestamp=str(STORE_MS + 10 * i)) == sound


LOST: dict[str, tuple[dict[str, str], type[Exception], str]] = {
    "expired": ({"startingOffsets": '{"A":{"0":4}}'}, DataLost, "has expired: .* left is 5"),
    "cut off": ({"startingOffsets": '{"A":{"0":10}}'}, DataLost, "above its last, 9"),
    "the end is cut off": ({"endingOffsets": '{"A":{"0":10}}'}, DataLost, "above its last, 9"),
    "no queue": ({"startingOffsets": '{"A":{"7":1}}'}, DataLost, "queue 7 of 'A' at bare is not"),
    "after all": ({"startingTimestamp": "9999999999999"}, OptionError, "Strategy to latest"),
    "no group": ({"startingOffsetsFromGroup": "g"}, OptionError, "committed no offset"),
}


@pytest.mark.parametrize("name", LOST)
def test_the_error_of_a_position_that_cannot_be_read(name: str, bare: str) -> None:
    options, error, message = LOST[name]
    with pytest.raises(error, match=message):
        offsets(path=bare, **options)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store with queues; queue 0 of topic G holds 83 messages."""
    return open_golden("basic", tmp_path)[0]


@pytest.mark.golden
def test_a_queue_of_a_store_by_offset(store: Path) -> None:
    rows = offsets(path=str(store), assign=QUEUE, startingOffsets='{"G":{"0":80}}')
    assert rows == [("G", 80), ("G", 81), ("G", 82)]
    ends = offsets(path=str(store), assign=QUEUE, endingOffsets='{"G":{"0":2}}')
    assert ends == [("G", 0), ("G", 1)]


@pytest.mark.golden
def test_offsets_of_a_queue_that_the_log_is_ahead_of(tmp_path: Path) -> None:
    store, manifest = open_golden("crash_lost_cq", tmp_path)
    queue = max(manifest["queues"], key=lambda queue: int(queue["maxOffset"]))
    topic, queue_id, last = queue["topic"], queue["queueId"], queue["maxOffset"] - 1
    start = json.dumps({topic: {str(queue_id): last}})
    assign = json.dumps({topic: [queue_id]})
    assert offsets(path=str(store), assign=assign, startingOffsets=start) == [(topic, last)]


@pytest.mark.golden
def test_a_group_goes_on_where_it_committed(store: Path) -> None:
    (store / "config").mkdir(exist_ok=True)
    table = {"offsetTable": {"G@readers": {"0": 81}, "G@others": {"0": 1}}}
    # 4.9.3 writes queue ids without quotes.
    text = json.dumps(table).replace('"0"', "0")
    (store / "config" / "consumerOffset.json").write_text(text)
    found = offsets(path=str(store), assign=QUEUE, startingOffsetsFromGroup="readers")
    assert found == [("G", 81), ("G", 82)]


@pytest.mark.golden
def test_a_topic_that_was_deleted(store: Path) -> None:
    with pytest.raises(DataLost, match=r"'GoldTopicX' is not in .* did you mean 'GoldTopicA'\?"):
        offsets(path=str(store), topic="GoldTopicX")
    assert offsets(path=str(store), topic="GoldTopicX", failOnDataLoss="false") == []


@pytest.mark.golden
def test_expired_offsets_of_a_store(store: Path) -> None:
    for segment in sorted((store / "commitlog").iterdir())[:5]:
        segment.unlink()
    with pytest.raises(DataLost, match=r"offset 0 of queue 0 of 'G' .* has expired"):
        offsets(path=str(store), assign=QUEUE, startingOffsets='{"G":{"0":0}}')
    start = {"startingOffsets": '{"G":{"0":0}}', "failOnDataLoss": "false"}
    left = offsets(path=str(store), assign=QUEUE, **start)
    assert left[-1] == ("G", 82)
    assert 0 < len(left) < 83


@pytest.mark.golden
def test_a_queue_with_wrong_entries_does_not_narrow_the_read(store: Path) -> None:
    folder = store / "consumequeue" / "G" / "0"
    first = sorted(folder.iterdir())[0]
    data = bytearray(first.read_bytes())
    data[20 * 3 : 20 * 3 + 8] = (1_700_000).to_bytes(8, "big")  # entry 3, of a message at 86,700
    first.write_bytes(data)
    rows = offsets(path=str(store), assign=QUEUE, startingOffsets='{"G":{"0":3}}')
    assert [offset for _, offset in rows] == list(range(3, 83))
