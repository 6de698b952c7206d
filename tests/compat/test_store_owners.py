"""One store that wakelog and the real broker own in turn, and stores left by a crash.

What nobody may lose or change from one owner to the next: messages with every field, the ends of
queues, what is found by key, committed offsets.
"""

import time
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.compat.clusters import Cluster, Starter, local_cluster, real_cluster
from tests.compat.driver import JavaDriver, bodies, message, wait_until
from tests.compat.frames import RawConnection
from tests.compat.store_contents import (
    SEGMENT_BYTES,
    SETTINGS,
    Contents,
    assert_kept,
    create_topics,
    fill,
    read,
)
from tests.compat.store_reading import pull_all, store_settings, summary
from tests.golden_stores import open_golden

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.long
def test_a_store_with_two_directories_of_the_log_changes_owners_four_times(tmp_path: Path) -> None:
    logs = [tmp_path / "store" / "commitlog", tmp_path / "second" / "commitlog"]
    settings = {**SETTINGS, "storePathCommitLog": ",".join(map(str, logs))}

    def real_in_order(folder: Path, **options: Any) -> AbstractContextManager[Cluster]:
        return real_cluster(folder, in_order=True, **options)

    owners: dict[str, Starter] = {
        "wakelog-1": local_cluster,
        "real-2": real_in_order,
        "wakelog-3": local_cluster,
        "real-4": real_cluster,  # nobody comes after it
    }
    contents: Contents | None = None
    for count, (owner, start) in enumerate(owners.items()):
        folder = tmp_path / owner
        with (
            start(folder, store=tmp_path / "store", settings=settings) as cluster,
            JavaDriver(cluster.name_server) as driver,
        ):
            if contents is None:
                create_topics(driver, cluster)
            else:
                assert_kept(contents, read(driver, cluster, list(owners)[:count]))
            fill(driver, cluster, owner)
            contents = read(driver, cluster, list(owners)[: count + 1])
    assert contents is not None
    assert len(contents.queues["singles", 0]) + len(contents.queues["singles", 1]) == 4 * 120
    # The segments lie in them by turns.
    for number, log in enumerate(sorted(logs)):
        offsets = sorted(int(path.name) for path in log.iterdir())
        assert len(offsets) > 4
        assert {offset // SEGMENT_BYTES % 2 for offset in offsets} == {number}


CONTINUED = ["filter_ext"]
CONTINUED_LONG = [
    "basic",
    "batch",
    "crash",
    "crash_lost_cq",
    "crash_torn_body",
    "crash_torn_page",
    "crash_torn_props",
    "delay_tx_retry",
    "index_heavy",
    "ipv6",
    "multi_dispatch",
    "transient",
]


@pytest.mark.golden
@pytest.mark.parametrize(
    "name", [*CONTINUED, *(pytest.param(name, marks=pytest.mark.long) for name in CONTINUED_LONG)]
)
def test_a_real_brokers_store_that_wakelog_continued_is_served_by_a_real_broker(
    tmp_path: Path, name: str
) -> None:
    store, manifest = open_golden(name, tmp_path)
    settings = store_settings(manifest)
    places = [(queue["topic"], queue["queueId"]) for queue in manifest["queues"]]
    own = next(place for place in places if not place[0].startswith(("%", "SCHEDULE_TOPIC")))
    read_by: dict[str, list[Any]] = {}
    sent: list[Any] = []
    for owner, start in (("wakelog", local_cluster), ("real", real_cluster)):
        folder = tmp_path / owner
        with (
            start(folder, store=store, settings=settings) as cluster,
            JavaDriver(cluster.name_server) as driver,
        ):
            # Light queues have no route: the client finds their broker by another topic's.
            driver("maxOffset", topic=own[0], broker=cluster.broker_name, queueId=own[1])
            sent = sent or send_more(driver, cluster, *own)
            answers = [pull_all(driver, cluster, *place) for place in places]
            read_by[owner] = [[summary(x) for x in queue] for queue in answers]
            window = {"begin": 0, "end": int(time.time() * 1000) + 60_000, "countMax": 64}
            found = driver.once_there(208, "queryByKey", topic=own[0], key="more-7", **window)
            assert [x["queueOffset"] for x in found] == [sent[7]["queueOffset"]]
    assert read_by["real"] == read_by["wakelog"]


def send_more(driver: JavaDriver, cluster: Cluster, topic: str, queue_id: int) -> list[Any]:
    """Send to one queue what rolls a segment, and wait until it can be read."""
    queue: dict[str, Any] = {"broker": cluster.broker_name, "queueId": queue_id}
    more = [message(topic, b"more" * 200, keys=f"more-{n}", **queue) for n in range(100)]
    sent = driver("send", group="g", messages=more)
    end = sent[-1]["queueOffset"] + 1
    wait_until(lambda: driver("maxOffset", topic=topic, **queue) == end, what="dispatched")
    return list(sent)


TRANSACTION_ENDS = {
    "committed": ("COMMIT_MESSAGE", ""),
    "rolled back": ("ROLLBACK_MESSAGE", ""),
    "committed when asked": ("UNKNOW", "COMMIT_MESSAGE"),
    "rolled back when asked": ("UNKNOW", "ROLLBACK_MESSAGE"),
}
"""What a producer says of a transaction at once, and when it is asked."""

DELIVERED = ("committed", "committed when asked", "late")
# The first two owners keep what the last one delivers, to whom level 2 is a wait of 2 s.
KEEPS_LATE = {**SETTINGS, "messageDelayLevel": "1s 10m 1s 1s 1s"}
ASKS_SOON = {"transactionTimeOut": "500", "transactionCheckInterval": "1000"}
SETTINGS_BY_OWNER = (
    {**KEEPS_LATE, "transactionTimeOut": "1000000"},
    {**KEEPS_LATE, **ASKS_SOON},
    {**SETTINGS, **ASKS_SOON},
)
HALF_QUEUE = {"topic": "RMQ_SYS_TRANS_HALF_TOPIC", "queueId": 0}
CONSUMER_OFFSET, MAX_OFFSET = 14, 30


def send_transactions(driver: JavaDriver, owner: str, group: str) -> None:
    """Do one transaction of each kind, and send a delayed message."""
    ended = [
        message(
            "transactions",
            f"{owner} {kind}".encode(),
            properties={"local": local, "checked": checked},
        )
        for kind, (local, checked) in TRANSACTION_ENDS.items()
    ]
    driver("sendInTransaction", group=group, messages=ended)
    late = message("transactions", f"{owner} late".encode(), delayLevel=2)
    driver("send", group="late", messages=[late])


def delivered(driver: JavaDriver, cluster: Cluster) -> list[str]:
    answers = pull_all(driver, cluster, "transactions", 0)
    return sorted(body.decode() for answer in answers for body in bodies(answer["messages"]))


def half_end(cluster: Cluster) -> int:
    with RawConnection(cluster.broker) as connection:
        return int(connection.ask(MAX_OFFSET, HALF_QUEUE).fields["offset"])


@pytest.mark.long
@pytest.mark.parametrize("order", ["real wakelog real", "wakelog real wakelog"])
def test_transactions_and_delayed_messages_change_owners_twice(tmp_path: Path, order: str) -> None:
    """The first owner asks nobody, the second asks in vain, and the third ends what is open."""
    starters: dict[str, Any] = {
        "real": partial(real_cluster, in_order=True),
        "wakelog": local_cluster,
    }
    names = order.split()
    for number, name in enumerate(names):
        folder = tmp_path / str(number)
        settings = SETTINGS_BY_OWNER[number]
        started = starters[name](folder, store=tmp_path / "store", settings=settings)
        with started as cluster, JavaDriver(cluster.name_server) as driver:
            if number == 0:
                driver("createTopic", address=cluster.broker, topic="transactions", queues=1)
                send_transactions(driver, "first", "first")
            elif number == 1:
                ask_in_vain(cluster)
                assert delivered(driver, cluster) == ["first committed"]
                send_transactions(driver, "second", "second")
            else:
                end_all(driver, cluster)


def ask_in_vain(cluster: Cluster) -> None:
    """Wait until the open half messages were put back twice: their producers are not there."""
    begin = half_end(cluster)
    wait_until(lambda: half_end(cluster) >= begin + 4, what="put back")


def end_all(driver: JavaDriver, cluster: Cluster) -> None:
    """Have the producers of both groups asked, and see that each message came once, or never."""
    send_transactions(driver, "third", "first")
    send_transactions(driver, "fourth", "second")
    senders = ("first", "second", "third", "fourth")
    wanted = sorted(f"{sender} {kind}" for sender in senders for kind in DELIVERED)
    wait_until(lambda: len(delivered(driver, cluster)) >= len(wanted), what="ended")
    wait_until(partial(are_all_passed, cluster), what="passed by the check")
    assert delivered(driver, cluster) == wanted


def are_all_passed(cluster: Cluster) -> bool:
    """Return whether the check has passed every half message, so that none is open."""
    group = {"consumerGroup": "CID_RMQ_SYS_TRANS"}
    with RawConnection(cluster.broker) as connection:
        answer = connection.ask(CONSUMER_OFFSET, HALF_QUEUE | group)
        return answer.fields.get("offset") == str(half_end(cluster))
