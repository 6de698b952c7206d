"""Commands that write what a cluster is and does to files of JSON."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

from wakelog.actors.errors import NotPossible
from wakelog.cli.admin.command import (
    BROKER,
    BROKER_OR_CLUSTER,
    CLUSTER,
    WHOLE_CLUSTER,
    flag,
    mark,
    mqadmin,
)
from wakelog.cli.admin.groups import TOPIC_PUT, day_sum
from wakelog.cli.admin.java_text import first_rate
from wakelog.cli.output import Output, Text
from wakelog.client.admin import Admin, cluster_members
from wakelog.client.clocks import wall_ms
from wakelog.client.errors import allowing_refusal
from wakelog.client.route import MASTER_ID
from wakelog.protocol import fastjson
from wakelog.protocol.bodies import (
    BrokerStatsData,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicList,
)
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.names import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SYSTEM_GROUP_PREFIX,
    TRANS_HALF_TOPIC,
)
from wakelog.protocol.versions import version_name

FOLDER_DEFAULT: Final = "/tmp/rocketmq/export"
SYSTEM_GROUPS: Final = frozenset(
    {
        "DEFAULT_CONSUMER", "DEFAULT_PRODUCER", "TOOLS_CONSUMER", "FILTERSRV_CONSUMER",
        "__MONITOR_CONSUMER", "CLIENT_INNER_PRODUCER", "SELF_TEST_P_GROUP", "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_ONSAPI_PULL",
    }
)  # fmt: skip
SETTINGS: Final = (
    "brokerClusterName", "brokerId", "brokerName", "brokerRole", "fileReservedTime",
    "filterServerNums", "flushDiskType", "maxMessageSize", "messageDelayLevel",
    "msgTraceTopicName", "slaveReadEnable", "traceOn", "traceTopicEnable", "useTLS",
    "autoCreateTopicEnable", "autoCreateSubscriptionGroup",
)  # fmt: skip
INTERNAL_TOPICS: Final = {"trans": TRANS_HALF_TOPIC, "schedule": SCHEDULE_TOPIC}
TPS: Final = ("normalInTps", "normalOutTps", "transInTps", "scheduleInTps")
COUNTS: Final = (
    "normalOneDayInNum", "normalOneDayOutNum", "transOneDayInNum", "scheduleOneDayInNum",
)  # fmt: skip
RATIOS: Final = ("commitLogDiskRatio", "consumeQueueDiskRatio")
TOOLS_VERSION: Final = 399
"""V4_9_3, whose exports these are."""


FOLDER = flag("f", "filePath", "Folder of the file.", FOLDER_DEFAULT)


def _write(folder: str, name: str, value: object) -> Output:
    """Write a file of JSON; its folder is made. Raises: OSError."""
    path = Path(folder, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(fastjson.dumps(value, pretty=True))
    return Text(f"export {path} success", {"path": str(path)})


async def _user_topics(
    admin: Admin, address: str, *, with_retries: bool
) -> TopicConfigSerializeWrapper:
    """Return the topics of a broker that are not its own."""
    found = await admin.ask_for(TopicConfigSerializeWrapper, address, Code.GET_ALL_TOPIC_CONFIG)
    code = Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER
    system = (await admin.ask_for(TopicList, address, code)).topic_list
    left_out = () if with_retries else (RETRY_PREFIX, DLQ_PREFIX)
    found.topic_config_table = {
        name: topic
        for name, topic in found.topic_config_table.items()
        if name not in system and not name.startswith(left_out)
    }
    return found


async def _user_groups(admin: Admin, address: str) -> SubscriptionGroupWrapper:
    """Return the groups of a broker that are not RocketMQ's own."""
    code = Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
    found = await admin.ask_for(SubscriptionGroupWrapper, address, code)
    found.subscription_group_table = {
        name: group
        for name, group in found.subscription_group_table.items()
        if not name.startswith(SYSTEM_GROUP_PREFIX) and name not in SYSTEM_GROUPS
    }
    return found


@mqadmin.command("exportMetadata", one_of=BROKER_OR_CLUSTER)
async def export_metadata(
    admin: Admin,
    broker: str = BROKER,
    cluster: str = CLUSTER,
    folder: str = FOLDER,
    topics_alone: bool = mark("t", "topic", "Topics alone."),
    groups_alone: bool = mark("g", "subscriptionGroup", "Groups alone."),
    with_retries: bool = mark("s", "specialTopic", "Topics of retries and dead letters as well."),
) -> AsyncIterator[Output]:
    """Write topics and groups to metadata.json, topic.json or subscriptionGroup.json."""
    name = "topic" if topics_alone else "subscriptionGroup" if groups_alone else "metadata"
    value: object
    if not broker:
        topics, groups = await _summed(admin, cluster, with_retries=with_retries)
        kept: dict[str, Any] = {} if name == "subscriptionGroup" else {"topicConfigTable": topics}
        kept |= {} if name == "topic" else {"subscriptionGroupTable": groups}
        value = {"exportTime": wall_ms(), **kept}
    elif topics_alone:
        value = await _user_topics(admin, broker, with_retries=with_retries)
    elif groups_alone:
        value = await _user_groups(admin, broker)
    else:
        raise NotPossible("-b exports topics or groups", "Give -t or -g as well.")
    yield _write(folder, f"{name}.json", value)


async def _summed(
    admin: Admin, cluster: str, *, with_retries: bool
) -> tuple[dict[str, TopicConfig], dict[str, SubscriptionGroupConfig]]:
    """Return the topics and groups of a cluster's masters, with their queues summed up."""
    topics: dict[str, TopicConfig] = {}
    groups: dict[str, SubscriptionGroupConfig] = {}
    for address in await admin.masters(cluster):
        found = await _user_topics(admin, address, with_retries=with_retries)
        for name, topic in found.topic_config_table.items():
            if (other := topics.get(name)) is not None:
                topic.write_queue_nums += other.write_queue_nums
                topic.read_queue_nums += other.read_queue_nums
            topics[name] = topic
        for name, group in (await _user_groups(admin, address)).subscription_group_table.items():
            if (known := groups.get(name)) is not None:
                group.retry_queue_nums += known.retry_queue_nums
            groups[name] = group
    return topics, groups


@mqadmin.command("exportConfigs")
async def export_settings(
    admin: Admin, cluster: str = WHOLE_CLUSTER, folder: str = FOLDER
) -> AsyncIterator[Output]:
    """Write the settings of a cluster's masters to configs.json."""
    members = cluster_members(await admin.cluster(), cluster)
    masters = [address for _, broker_id, address in members if broker_id == MASTER_ID]
    brokers = {}
    for address in masters:
        settings = await admin.settings(address)
        brokers[settings["brokerName"]] = {key: settings.get(key) for key in SETTINGS}
    scale = {
        "namesrvSize": len(admin.options.name_servers),
        "masterBrokerSize": len(masters),
        "slaveBrokerSize": len(members) - len(masters),
    }
    yield _write(folder, "configs.json", {"brokerConfigs": brokers, "clusterScale": scale})


@mqadmin.command("exportMetrics")
async def export_metrics(
    admin: Admin, cluster: str = WHOLE_CLUSTER, folder: str = FOLDER
) -> AsyncIterator[Output]:
    """Write what passes through a cluster's masters to metrics.json."""
    report, tps, counts = {}, dict.fromkeys(TPS, 0.0), dict.fromkeys(COUNTS, 0)
    for name, broker_id, address in cluster_members(await admin.cluster(), cluster):
        if broker_id != MASTER_ID:
            continue
        runtime, settings = await admin.runtime_info(address), await admin.settings(address)
        groups = (await _user_groups(admin, address)).subscription_group_table
        quota = await _quota(admin, address, runtime)
        report[name] = {
            "runtimeEnv": {
                "cpuNum": settings.get("clientCallbackExecutorThreads"),
                "totalMemKBytes": runtime.get("totalMemKBytes"),
            },
            "runtimeQuota": {**quota, "groupSize": len(groups)},
            "runtimeVersion": {
                "rocketmqVersion": version_name(TOOLS_VERSION),
                "clientInfo": await _client_versions(admin, groups),
            },
        }
        tps = {key: total + quota["tps"][key] for key, total in tps.items()}
        counts = {key: total + quota["oneDayNum"][key] for key, total in counts.items()}
    total = {f"total{key[0].upper()}{key[1:]}": value for key, value in tps.items()}
    data = {"totalTps": total, "totalOneDayNum": counts}
    yield _write(folder, "metrics.json", {"evaluateReport": report, "totalData": data})


async def _quota(admin: Admin, address: str, runtime: Mapping[str, str]) -> dict[str, Any]:
    topics = await _user_topics(admin, address, with_retries=False)
    internal = {kind: await _stats(admin, address, x) for kind, x in INTERNAL_TOPICS.items()}
    rates = [first_rate(runtime, name) for name in ("putTps", "getTransferedTps")]
    ends = {
        (verb, day): int(runtime.get(f"msg{verb}Total{day}Morning", 0))
        for verb in ("Put", "Get")
        for day in ("Today", "Yesterday")
    }
    sums = [ends[verb, "Today"] - ends[verb, "Yesterday"] for verb in ("Put", "Get")]
    rates += [stats.stats_minute.tps for stats in internal.values()]
    sums += [day_sum(stats) for stats in internal.values()]
    return {
        "diskRatio": {name: runtime.get(name) for name in RATIOS},
        "tps": dict(zip(TPS, rates, strict=True)),
        "oneDayNum": dict(zip(COUNTS, sums, strict=True)),
        "messageAverageSize": runtime.get("putMessageAverageSize"),
        "topicSize": len(topics.topic_config_table),
    }


async def _stats(admin: Admin, address: str, topic: str) -> BrokerStatsData:
    """Return what was put into a topic; nothing for a broker that has no such statistic."""
    with allowing_refusal():
        return await admin.stats(address, TOPIC_PUT, topic)
    return BrokerStatsData()


async def _client_versions(admin: Admin, groups: Mapping[str, object]) -> list[str]:
    """Return the languages and versions of all consumers."""
    found = set()
    for group in groups:
        with allowing_refusal():
            clients = (await admin.consumers(group)).connection_set
            found |= {f"{each.language}%{version_name(each.version)}" for each in clients}
    return sorted(found)
