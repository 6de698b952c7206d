"""What is said of a broker's store: by wakelog's, and by one of 4.9.3 that tells less."""

import pytest

from wakelog.broker.health_values import StoreHealth, store_values
from wakelog.console.cluster_reading import BrokerReading, ClusterReading
from wakelog.console.ends import Ends
from wakelog.console.history import History
from wakelog.console.views import store_health
from wakelog.console.views.store_health import NOT_REPORTED, TopicShare
from wakelog.protocol.bodies import TopicOffset, TopicStatsTable
from wakelog.protocol.body_codec import MessageQueue

NOW_MS = 100 * 3_600_000
VALUES = {
    "commitLogMinOffset": "1024",
    "commitLogMaxOffset": "5120",
    "remainHowManyDataToFlush": "9 B",
    "dispatchBehindBytes": "2048",
    "earliestMessageTimeStamp": str(NOW_MS - 3 * 3_600_000),
    "commitLogDiskRatio": "0.61",
    "commitLogDirCapacity": "Total : 98.0 GiB, Free : 38.2 GiB.",
}
SETTINGS = {"fileReservedTime": "72", "storePathRootDir": "/srv/my store"}


def facts(values: dict[str, str], settings: dict[str, str] | None = None) -> dict[str, str]:
    reading = BrokerReading("c", "a", 0, "a:1", values, settings=settings or {})
    found = store_health.store_facts(reading, History(), NOW_MS)
    return {x.key: f"{x.text} {x.command}".strip() for x in found}


def test_a_store_of_wakelog_is_shown_whole() -> None:
    health = StoreHealth(0, 1_204, 354, 0, 4 << 30, 6 << 30, 2, 0, 0, 3, 354)
    assert facts(VALUES | store_values(health), SETTINGS) == {
        "log": "4 KiB, from offset 1,024 to 5,120",
        "flush": "9 B",
        "dispatch": "2 KiB",
        "kept": "for 72 h (fileReservedTime); the oldest one is 3 h old",
        "disk": "61 % used; 38.2 GiB of 98.0 GiB are free",
        "full": "not known before 10 min of readings",
        "start": "the run before had not ended in order; 1,204 records were checked; "
        "354 B at the end were no whole messages, and are kept aside",
        "sums": "of 4 GiB since the start; 6 GiB were read again, the whole log 2 times; "
        "nothing differs",
        "aside": "3 files with 354 B in wakelog.quarantine/",
        "verify": "on its host, and the result is kept nowhere: "
        "wakelog log verify --store '/srv/my store'",
    }


def test_a_store_of_4_9_3_says_in_words_what_is_not_known() -> None:
    found = facts(VALUES)
    assert found["start"] == found["sums"] == found["aside"] == NOT_REPORTED
    assert found["kept"].startswith("for a time that it does not tell")
    assert found["verify"].endswith("--store DIR")


def test_a_broker_without_an_answer_has_few_lines() -> None:
    found = facts({})
    assert {"kept", "disk", "full", "verify"} <= found.keys() and "log" not in found
    assert found["disk"] == "- used"
    assert facts({"commitLogDiskRatio": "-1.0"})["disk"] == "- used"


@pytest.mark.parametrize(
    ("before", "after", "minutes", "says"),
    [
        (0.50, 0.60, 50, "in 2 h 30 min, at the rate of the last 50 min"),
        (0.60, 0.60, 50, "not soon: its disk has not filled in the last 50 min"),
        (0.50, 0.60, 5, "not known before 10 min of readings"),
        (0.85, 0.91, 50, "now"),
    ],
)
def test_when_the_disk_is_full_follows_from_the_last_hour(
    before: float, after: float, minutes: int, says: str
) -> None:
    history = History()
    for at_ms, ratio in ((NOW_MS - minutes * 60_000, before), (NOW_MS, after)):
        broker = BrokerReading("c", "a", 0, "a:1", {"commitLogDiskRatio": str(ratio)})
        history.add(ClusterReading(at_ms, brokers=[broker]))
    assert store_health.full_text("a:1", history) == says
    left = store_health.full_in("a:1", history)
    assert "not known" in says if left is None else left in says


def test_damage_and_changes_are_said() -> None:
    health = StoreHealth(damaged_bytes=2_048, changed_blocks=3, sum_failures=7, compare_rounds=1)
    assert store_health.start_text(health).endswith("; 2 KiB are damaged, and passed over")
    text = store_health.sums_text(health)
    assert text.endswith("once; 7 times that was not possible (storeerror.log); 3 blocks differ")
    assert store_health.aside_text(health) == "empty"
    one = StoreHealth(quarantined_files=1)
    assert store_health.aside_text(one) == "1 file with 0 B in wakelog.quarantine/"


def ends(**held: int) -> Ends:
    table = {MessageQueue("T", name, 0): TopicOffset(5, 5 + count) for name, count in held.items()}
    return Ends(1, TopicStatsTable(table), 0)


def test_the_topics_with_most_messages_at_a_broker_come_first() -> None:
    known = {"few": ends(a=1, b=90), "many": ends(a=3), "none": ends(b=9)}
    found = store_health.topic_shares("a", known)
    assert found == [TopicShare("many", 3, 0.75), TopicShare("few", 1, 0.25)]
    assert store_health.topic_shares("c", known) == []
    hundred = {f"t{n:03}": ends(a=1) for n in range(100)}
    assert len(store_health.topic_shares("a", hundred)) == store_health.TOPICS_SHOWN_MAX
