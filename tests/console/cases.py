"""For each rule a cluster about which it speaks, and one about which it is silent."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from wakelog.broker.health_values import (
    DISK_FULL_VALUE,
    LATE_SYNC_VALUE,
    LOG_FAILURE_VALUE,
    ActorHealth,
    StoreHealth,
    actor_values,
    store_values,
)
from wakelog.broker.replication.known_group import IN_SYNC_VALUE
from wakelog.broker.replication.takeover import (
    ELECTION_REFUSAL_VALUE,
    LOG_EPOCH_VALUE,
    LOG_ID_VALUE,
    REFUSES_SENDS_VALUE,
    REGISTER_FAILURE_VALUE,
    REPLICA_VALUE,
)
from wakelog.broker.trouble import NOTICE_PREFIX, Trouble, runtime_values
from wakelog.client.errors import ClientError
from wakelog.console.changes import HOUR_MS
from wakelog.console.cluster_reading import (
    BrokerReading,
    ClusterReading,
    GroupReading,
    NameServerReading,
)
from wakelog.console.history import History
from wakelog.console.waiting import Backlog, HalfReading, LevelReading, OpenHalf
from wakelog.protocol.bodies import (
    BrokerData,
    ClusterInfo,
    Connection,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    OffsetWrapper,
    SubscriptionData,
    SubscriptionGroupConfig,
)
from wakelog.protocol.body_codec import MessageQueue

MINUTE_MS = 60_000
NOW_MS = 1_000 * MINUTE_MS
MIB = 1 << 20
QUEUE = MessageQueue("T", "a", 0)
Snapshots = tuple[ClusterReading, ...]


def cluster(
    now_ms: int = NOW_MS,
    values: dict[str, str] | None = None,
    *,
    waiting: dict[str, str] | None = None,
    address: str = "10.0.0.5:10911",
    broker_id: int = 0,
    failure: ClientError | None = None,
    slave: dict[str, str] | None = None,
    letters: int = 0,
    messages: Backlog | None = None,
    **groups: GroupReading,
) -> ClusterReading:
    """Return one broker, with a slave if it has values, and groups."""
    brokers = [
        BrokerReading(
            "c",
            "a",
            broker_id,
            address,
            values or {},
            waiting=waiting or {},
            failure=failure,
            messages=messages,
        )
    ]
    if slave is not None:
        brokers.append(BrokerReading("c", "a", 1, "10.0.0.6:10911", slave))
    info = ClusterInfo({"a": BrokerData("c", "a", {x.broker_id: x.address for x in brokers})})
    return ClusterReading(now_ms, info, "10.0.0.4:9876", brokers, groups, {"g": letters})


def group(
    lag: int = 0,
    *,
    clients: int = 1,
    consumed: int = 5,
    last_ms: int = NOW_MS,
    enabled: bool = True,
    model: str = "CLUSTERING",
    members: dict[str, ConsumerRunningInfo] | None = None,
) -> GroupReading:
    """Return a group that has consumed some of one queue."""
    place = OffsetWrapper(consumed + lag, consumed, last_ms)
    return GroupReading(
        [SubscriptionGroupConfig("g", consume_enable=enabled)],
        ConsumeStats({QUEUE: place}),
        ConsumerConnection([Connection(f"c{n}") for n in range(clients)], message_model=model),
        members or {},
    )


def member(expression: str = "*", *, has_queue: bool = True, **process: Any) -> ConsumerRunningInfo:
    subscriptions = [
        SubscriptionData(topic="T", sub_string=expression),
        SubscriptionData(topic="%RETRY%g", sub_string="*"),
    ]
    return ConsumerRunningInfo({}, subscriptions, {QUEUE: process} if has_queue else {})


def unlike(*expressions: str) -> GroupReading:
    members = {f"c{n}": member(each) for n, each in enumerate(expressions)}
    return group(clients=2, members=members)


def held(taken_ms: int) -> GroupReading:
    info = member(locked=True, cachedMsgCount=3, lastConsumeTimestamp=taken_ms)
    return group(members={"c0": info})


def log_end(mebibytes: int) -> dict[str, str]:
    return {"commitLogMaxOffset": str(mebibytes * MIB)}


def disk_course(before: float, after: float, minutes: int) -> Snapshots:
    values = [{"commitLogDiskRatio": str(x)} for x in (before, after)]
    return (
        cluster(NOW_MS - minutes * MINUTE_MS, values[0]),
        cluster(NOW_MS, values[1]),
    )


def course(before: GroupReading, after: GroupReading, seconds: int = 60) -> Snapshots:
    return cluster(NOW_MS - seconds * 1_000, g=before), cluster(g=after)


def delayed(late: int) -> Snapshots:
    """Return a wakelog broker where so many of a level are late."""
    level = LevelReading(3, 10_000, 5, 20, NOW_MS - 90_000, late, late, NOW_MS - 40_000)
    return (cluster(NOW_MS, {"wakelogVersion": "1"}, messages=Backlog((level,))),)


def open_half(age_ms: int) -> Snapshots:
    """Return a broker whose first half message has this age."""
    half = OpenHalf("a", "7F", "orders", "payments", NOW_MS - age_ms, NOW_MS, 4)
    return (cluster(messages=Backlog((), HalfReading(0, 1, 0, half))),)


def with_broker(snapshot: ClusterReading, **fields: Any) -> ClusterReading:
    """Return it with other fields of its first broker."""
    for name, value in fields.items():
        setattr(snapshot.brokers[0], name, value)
    return snapshot


def servers(now_ms: int, *known: Mapping[int, str] | ClientError | None) -> ClusterReading:
    """Return a cluster whose name servers have these addresses of broker a, or fail."""
    found = cluster(now_ms)
    for number, each in enumerate(known):
        server = NameServerReading(f"n:{number}")
        if isinstance(each, ClientError):
            server.failure = each
        elif each is not None:
            server.info.broker_addr_table["a"] = BrokerData("c", "a", dict(each))
        found.name_servers.append(server)
    return found


def elected(
    *,
    logs: str = "77",
    epochs: str = "55",
    ends: tuple[int, int] = (9, 9),
    minutes: int = 60,
    members: str = "1 2",
    reason: str = "",
) -> ClusterReading:
    """Return a master (1) and a replica (2) with what each says; minutes: since their start."""
    said = [
        {
            "bootTimestamp": str(NOW_MS - minutes * MINUTE_MS),
            REPLICA_VALUE: str(number),
            LOG_ID_VALUE: log,
            LOG_EPOCH_VALUE: epoch,
            "commitLogMaxOffset": str(end),
        }
        for number, log, epoch, end in zip((1, 2), logs, epochs, ends, strict=True)
    ]
    said[0][IN_SYNC_VALUE] = members
    said[1][ELECTION_REFUSAL_VALUE] = reason
    return cluster(NOW_MS, said[0], slave=said[1])


def started(*minutes_ago: int) -> Snapshots:
    """Return a reading after each start."""
    boots = [NOW_MS - each * MINUTE_MS for each in minutes_ago]
    return tuple(cluster(x + 1_000, {"bootTimestamp": str(x)}) for x in boots)


def gone(seconds: int) -> Snapshots:
    """Return a replica that went so long ago."""
    then = cluster(NOW_MS - (seconds + 5) * 1_000, slave={})
    return then, cluster(NOW_MS - seconds * 1_000), cluster(NOW_MS)


def retries(retried: int, consumed: int) -> Snapshots:
    """Return an hour in which so many messages came back, and others were consumed."""
    found = []
    for elapsed_ms, back, done in ((HOUR_MS // 2, 100, 9), (0, 100 + retried, 9 + consumed)):
        reading = group(consumed=done)
        queue = MessageQueue("%RETRY%g", "a", 0)
        reading.progress.offset_table[queue] = OffsetWrapper(back, back, NOW_MS)
        found.append(cluster(NOW_MS - elapsed_ms, g=reading))
    return tuple(found)


def stored(**health: int) -> ClusterReading:
    """Return a broker that tells this of its store."""
    found = cluster(NOW_MS, store_values(StoreHealth(**health)))
    found.brokers[0].settings = {"storePathRootDir": "/srv/store"}
    return found


def serving(minutes: int, count: int, *, is_attached: bool = True) -> ClusterReading:
    """Return a broker so long after its start, whose Reput has begun to work so often."""
    actors = actor_values({"reput": ActorHealth(is_attached, count)})
    return cluster(NOW_MS + minutes * MINUTE_MS, {"bootTimestamp": str(NOW_MS), **actors})


ADDRESSES = {0: "10.0.0.5:10911"}
NO_ANSWER = ClientError("a does not answer", "Start it")
REFUSED = ClientError("a refuses", "Check the access key", code=1)
TROUBLE = runtime_values({"reput": Trouble("the disk is full", "Free some space.")})
NOTICE = runtime_values({"topics.json": Trouble("read from .bak", "See T.")}, NOTICE_PREFIX)


class Case(NamedTuple):
    """Snapshots about which a rule speaks, with a part of what it says, and others."""

    fires: Snapshots
    says: str
    silent: Snapshots


def values_case(name: str, high: object, says: str, low: object) -> Case:
    return Case((cluster(NOW_MS, {name: str(high)}),), says, (cluster(NOW_MS, {name: str(low)}),))


HOURS_OLD_MS = NOW_MS - 60 * MINUTE_MS
CASES: dict[str, Case] = {
    "no name server": Case(
        (ClusterReading(NOW_MS, name_server="n:1", failure=NO_ANSWER),), "a does not", (cluster(),)
    ),
    "no broker": Case((ClusterReading(NOW_MS),), "none has registered", (cluster(),)),
    "no answer": Case(
        (cluster(failure=NO_ANSWER),), "a does not answer", (cluster(failure=REFUSED),)
    ),
    "refused": Case((cluster(failure=REFUSED),), "a refuses", (cluster(failure=NO_ANSWER),)),
    "no address": Case((cluster(address="0.0.0.0:1"),), "advertises 0.0.0.0:1", (cluster(),)),
    "loopback address": Case(
        (cluster(address="127.0.0.1:1"),), "advertises 127.0.0.1:1", (cluster(),)
    ),
    "no master": Case((cluster(broker_id=1),), "has no master", (cluster(),)),
    "broker gone": Case(gone(40), "has left the name servers, where it was replica 1", gone(5)),
    "name server away": Case(
        (servers(NOW_MS, ADDRESSES, NO_ANSWER),), "a does not", (servers(NOW_MS, ADDRESSES),)
    ),
    "name servers disagree": Case(
        (servers(NOW_MS, ADDRESSES, None),),
        "n:0 has master 10.0.0.5:10911, and n:1 has no such broker",
        (servers(NOW_MS - 9_000, ADDRESSES, ADDRESSES), servers(NOW_MS, ADDRESSES, None)),
    ),
    "clocks apart": Case(
        (with_broker(cluster(), clock_ahead_ms=-90_000.0),),
        "its clock is 1 min 30 s behind the one",
        (with_broker(cluster(), clock_ahead_ms=4_900.0),),
    ),
    "certificate ends": Case(
        (with_broker(cluster(), certificate_end_ms=NOW_MS + 13 * 24 * HOUR_MS),),
        "is valid for 13 days more",
        (with_broker(cluster(), certificate_end_ms=NOW_MS + 15 * 24 * HOUR_MS),),
    ),
    "certificate ended": Case(
        (with_broker(cluster(), certificate_end_ms=NOW_MS - HOUR_MS),),
        "its certificate ended 1 h ago",
        (with_broker(cluster(), certificate_end_ms=0),),
    ),
    "restarts": Case(started(40, 20, 5), "has started 3 times in 35 min", started(70, 20, 5)),
    "log damaged": Case(
        (stored(damaged_bytes=2 * MIB),), "2 MiB of its log were durable once", (stored(),)
    ),
    "log changed": Case(
        (stored(changed_blocks=3),), "3 blocks of its log are not what was written", (stored(),)
    ),
    "service away": Case(
        (serving(60, 1, is_attached=False),),
        "reput does not work for it now",
        (serving(60, 1), serving(0, 1, is_attached=False)),
    ),
    "service restarts": Case(
        (serving(60, 1), serving(70, 4)),
        "reput has begun again 3 times in 10 min",
        (serving(60, 4), serving(70, 1)),
    ),
    "refused service": Case((cluster(NOW_MS, TROUBLE),), "reput does not work", (cluster(),)),
    "table from .bak": Case((cluster(NOW_MS, NOTICE),), "read from .bak", (cluster(),)),
    "refused sends": Case(
        (cluster(NOW_MS, {REFUSES_SENDS_VALUE: "no quorum"}),),
        "refuses sends: no quorum",
        (cluster(slave={REFUSES_SENDS_VALUE: "no quorum"}),),
    ),
    "waits for restart": Case(
        (cluster(waiting={"listenPort": "1", "b": ""}),),
        "b=not set, listenPort=1 in use until",
        (cluster(),),
    ),
    "disk full": values_case("commitLogDiskRatio", 0.9, "90% full: from 90%", 0.89),
    "disk refuses": values_case(DISK_FULL_VALUE, 1, "has no room", 0),
    "disk hangs": values_case(LATE_SYNC_VALUE, 61_000, "returned for 1 min 1 s", 5_000),
    "log failed": values_case(LOG_FAILURE_VALUE, "EIO", "takes no more messages: EIO", ""),
    "disk filling": values_case("commitLogDiskRatio", 0.75, "75% full: from 75%", 0.74),
    "disk grows": Case(
        disk_course(0.50, 0.60, 50),
        "50.0% to 60.0% in 50 min: at this rate it takes no sends in 2 h 30 min",
        disk_course(0.50, 0.60, 5),
    ),
    "retention behind": Case(
        disk_course(0.76, 0.80, 20), "no sends in 50 min", disk_course(0.80, 0.80, 20)
    ),
    "sends wait": values_case("sendThreadPoolQueueHeadWaitTimeMills", 201, "sends wait 201", 200),
    "dispatch behind": values_case("dispatchBehindBytes", 65 * MIB, "65 MiB", 64 * MIB),
    "flush behind": values_case("remainHowManyDataToFlush", "1.5 GiB", "1,536 MiB", "200.0 MiB"),
    "replica behind": Case(
        (
            cluster(
                NOW_MS, {"commitLogMaxOffset": f"{300 * MIB}"}, slave={"commitLogMaxOffset": "0"}
            ),
        ),
        "lacks 300 MiB",
        (
            cluster(
                NOW_MS, {"commitLogMaxOffset": f"{200 * MIB}"}, slave={"commitLogMaxOffset": "0"}
            ),
        ),
    ),
    "out of sync": Case(
        (elected(members="1 3"),), "in-sync set of its master (1, 3)", (elected(members="1 2"),)
    ),
    "election refused": Case(
        (elected(reason="the register has lost this group"),), "has lost this group", (elected(),)
    ),
    "register away": values_case(REGISTER_FAILURE_VALUE, "no etcd", "cannot be used: no etcd", ""),
    "other log": Case((elected(logs="78"),), "has another log", (elected(),)),
    "older epoch": Case(
        (elected(epochs="54", ends=(9, 8)),),
        "is in epoch 4, and that of its master in 5",
        (elected(epochs="54", ends=(9, 8), minutes=1),),
    ),
    "no client": Case(
        course(group(3, clients=0), group(5, clients=0)),
        "no client is online, and 5 messages wait: 2 more in 1 min",
        course(group(0, clients=0), group(0, clients=0)),
    ),
    "left alone": Case(
        course(group(5, clients=0), group(5, clients=0)),
        "no client is online, and 5 messages wait",
        course(
            group(5, clients=0, model="BROADCASTING"), group(5, clients=0, model="BROADCASTING")
        ),
    ),
    "falls behind": Case(
        course(group(300), group(400, last_ms=NOW_MS - 2 * MINUTE_MS)),
        "is 400 messages (2 min) behind on T, and falling further: 100 more in 1 min",
        course(group(400), group(300, last_ms=NOW_MS - 2 * MINUTE_MS)),
    ),
    "behind": Case(
        course(group(9), group(9, last_ms=HOURS_OLD_MS)),
        "is 9 messages (1 h) behind on T",
        course(group(9), group(9, last_ms=NOW_MS - 5 * MINUTE_MS)),
    ),
    "may not consume": Case(
        (cluster(g=group(enabled=False)),),
        "consumeEnable=false",
        (cluster(g=group(clients=0, enabled=False)),),
    ),
    "subscriptions differ": Case(
        (cluster(g=unlike("paid", "*")),),
        "c0 subscribes to T@paid; c1 subscribes to T@*",
        (cluster(g=unlike("*", "*")),),
    ),
    "queue without client": Case(
        (cluster(g=group(7, members={"c0": member(has_queue=False)})),),
        "queue 0 of T at a lags by 7 and no client has it",
        (cluster(g=group(7, clients=2, members={"c0": member(has_queue=False)})),),
    ),
    "lock held": Case(
        (cluster(g=held(NOW_MS - 90_000)),),
        "c0 holds the lock of queue 0 of T at a, and has consumed nothing of its 3 messages for 90",
        (cluster(g=held(NOW_MS - 50_000)),),
    ),
    "no commit": Case(
        course(group(3), group(9, members={"c0": member()})),
        "queue 0 of T at a got 6 messages in 60 s, and c0, which has it, stayed at offset 5",
        course(group(3), group(9, consumed=6, members={"c0": member()})),
    ),
    "retries loop": Case(
        retries(60, 5),
        "60 times one was given back in 30 min, and 5 came for the first time",
        retries(60, 61),
    ),
    "dead letters": Case(
        (cluster(NOW_MS - MINUTE_MS, letters=2, g=group()), cluster(letters=5, g=group())),
        "gave up 3 messages in 1 min; it has had 5",
        (cluster(NOW_MS - MINUTE_MS, letters=5), cluster(letters=5)),
    ),
    "delayed overdue": Case(
        delayed(4),
        "4 delayed messages are overdue, the first by 1 min 30 s: level 3 (10 s) stays at offset 5",
        delayed(0),
    ),
    "half overdue": Case(
        open_half(306_000),
        "of orders has been open for 5 min 6 s: producer group payments was asked 4 times",
        open_half(305_999),
    ),
}


def history_of(snapshots: Snapshots) -> History:
    history = History()
    for each in snapshots:
        history.add(each)
    return history
