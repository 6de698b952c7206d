"""Actions for the maintenance of a broker: no sends to it, queues of no more use, a switch.

All but the switch are mqadmin's commands.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from wakelog.broker.replication.known_group import known_group
from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError
from wakelog.client.route import MASTER_ID
from wakelog.console.actions.action import Action, Field, PreviewCommand, Values, words_of
from wakelog.console.quantities import bytes_text, counted
from wakelog.protocol.bodies import TopicConfigSerializeWrapper, TopicList
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.names import DLQ_PREFIX, RETRY_PREFIX
from wakelog.protocol.sys_flag import PERM_WRITE

MASTERS_ASKED_MAX: Final = 32
"""How many brokers are asked for their topics before one gets no sends; beyond that it is said."""

NAME: Final = Field("broker", "Broker", help="its name, such as broker-a")
ADDRESS: Final = Field("broker", "Broker", help="HOST:PORT")
SWITCH: Final = "cluster failover {broker} --register {register} [--to {to}]"
_PAGE: Final = "/brokers/{broker}?tab=maintenance"


async def _before_wipe(admin: Admin, values: Values) -> list[str]:
    name = values["broker"]
    own, others, unknown = await _writable_topics(admin, name)
    alone = sorted(own - others)
    servers = counted(len(admin.options.name_servers), "name server")
    found = [f"producers find no queue at {name} for {counted(len(own), 'topic')}, by {servers}"]
    if alone:
        names = ", ".join(alone[:5]) + (f" and {len(alone) - 5:,} more" if len(alone) > 5 else "")
        found.append(f"{counted(len(alone), 'topic')} can be sent to nowhere else: {names}")
    else:
        found.append("each of them can be sent to at another broker")
    if unknown:
        found.append(f"{unknown:,} other brokers have not said which topics they have")
    return [
        *found,
        "consumers go on until they have consumed what it has",
        "a start of the broker or of a name server ends it",
    ]


async def _before_add(admin: Admin, values: Values) -> list[str]:
    own, _, _ = await _writable_topics(admin, values["broker"])
    return [
        f"producers find the queues of {values['broker']} again, for {counted(len(own), 'topic')}"
    ]


async def _writable_topics(admin: Admin, name: str) -> tuple[set[str], set[str], int]:
    """Return users' topics that may be written at a broker and at others, and how many are silent.

    Raises: ClientError for a broker that is not there.
    """
    info = await admin.cluster()
    if name not in info.broker_addr_table:
        known = ", ".join(sorted(info.broker_addr_table)) or "none"
        raise ClientError(f"there is no broker {name}", f"The name server knows: {known}")
    masters = {
        each: data.broker_addrs[MASTER_ID]
        for each, data in sorted(info.broker_addr_table.items())
        if MASTER_ID in data.broker_addrs
    }
    if name not in masters:
        raise ClientError(f"{name} has no master now", "Nothing is sent to it as it is")
    address = masters.pop(name)
    system = await admin.ask_for(TopicList, address, Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
    not_of_users = {*info.broker_addr_table, *info.cluster_addr_table, *system.topic_list}
    own = await _topics_at(admin, address) - not_of_users
    others: set[str] = set()
    unknown = max(0, len(masters) - MASTERS_ASKED_MAX)
    for address in list(masters.values())[:MASTERS_ASKED_MAX]:
        try:
            others |= await _topics_at(admin, address)
        except ClientError:
            unknown += 1
    return own, others, unknown


async def _topics_at(admin: Admin, address: str) -> set[str]:
    table = await admin.ask_for(TopicConfigSerializeWrapper, address, Code.GET_ALL_TOPIC_CONFIG)
    of_groups = (RETRY_PREFIX, DLQ_PREFIX)
    return {
        topic
        for topic, config in table.topic_config_table.items()
        if config.perm & PERM_WRITE and not topic.startswith(of_groups)
    }


async def _before_clean_expired(admin: Admin, values: Values) -> list[str]:
    address = values["broker"]
    begin = (await admin.runtime_info(address)).get("commitLogMinOffset", "0")
    return [
        f"{await _queues_text(admin, address)}; the log begins at offset {int(begin):,}",
        "queues all of whose messages are gone from the log are deleted, and nothing of the log",
        "the broker does not say before how many these are",
    ]


async def _before_clean_unused(admin: Admin, values: Values) -> list[str]:
    address = values["broker"]
    return [
        f"{await _queues_text(admin, address)}: these stay",
        "queues of topics that it does not have are deleted, such as those of deleted topics",
        "the broker does not say before how many these are",
    ]


async def _queues_text(admin: Admin, address: str) -> str:
    table = await admin.ask_for(TopicConfigSerializeWrapper, address, Code.GET_ALL_TOPIC_CONFIG)
    configs = table.topic_config_table.values()
    queues = sum(max(each.read_queue_nums, each.write_queue_nums) for each in configs)
    return f"{address} has {counted(len(configs), 'topic')} with {queues:,} queues"


async def _before_switch(admin: Admin, values: Values) -> list[str]:
    """Say who is master, and what each other replica lacks of its log."""
    info = await admin.cluster()
    data = info.broker_addr_table.get(values["broker"])
    if data is None:
        raise ClientError(f"there is no broker {values['broker']}", "Give one that is registered")
    found, ends = [], {}
    for broker_id, address in sorted(data.broker_addrs.items()):
        try:
            runtime = await admin.runtime_info(address)
        except ClientError:
            found.append(f"{address} does not answer")
            continue
        group = known_group(runtime)
        number = broker_id if group is None else group.number
        ends[number] = int(runtime.get("commitLogMaxOffset", 0)), address, broker_id == MASTER_ID
        if group is not None and broker_id == MASTER_ID:
            found.insert(0, f"replica {number} at {address} is master in epoch {group.epoch}")
    end = max((x for x, _, is_master in ends.values() if is_master), default=0)
    for number, (own_end, address, is_master) in sorted(ends.items()):
        if not is_master:
            lacks = f"lacks {bytes_text(end - own_end)}" if end > own_end else "has all of its log"
            found.append(f"replica {number} at {address} {lacks}")
    return [*found, "sends to it fail for one to three seconds, and clients try again"]


def _sum_switch(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say which replica leads then. rows: what the command says without `--yes`."""
    return [f"replica {row['to']} is to be master" for row in rows if "to" in row]


ACTIONS: Final[tuple[Action, ...]] = (
    Action(
        "switch-master",
        "Switch master",
        (
            NAME,
            Field(
                "register",
                "Register",
                "address",
                help="where the group decides, as wakelog.register",
            ),
            Field(
                "to",
                "Next master",
                "number",
                is_required=False,
                minimum=1,
                help="number of a replica in sync; none for the best one",
            ),
        ),
        words_of(SWITCH + " --yes"),
        "/brokers/{broker}",
        _before_switch,
        shown=PreviewCommand(words_of(SWITCH), _sum_switch),
        typed="broker",
        does="Another replica that has every acknowledged message becomes the master.",
    ),
    Action(
        "stop-sends",
        "Stop sends to a broker",
        (NAME,),
        words_of("admin wipeWritePerm -b {broker}"),
        _PAGE,
        _before_wipe,
        typed="broker",
        does="Producers are told to send to other brokers, as before a broker is taken away.",
    ),
    Action(
        "allow-sends",
        "Allow sends to a broker",
        (NAME,),
        words_of("admin addWritePerm -b {broker}"),
        _PAGE,
        _before_add,
    ),
    Action(
        "clean-expired-queues",
        "Clean expired queues",
        (ADDRESS,),
        words_of("admin cleanExpiredCQ -b {broker}"),
        "/brokers",
        _before_clean_expired,
        typed="broker",
    ),
    Action(
        "clean-unused-topics",
        "Clean queues without a topic",
        (ADDRESS,),
        words_of("admin cleanUnusedTopic -b {broker}"),
        "/brokers",
        _before_clean_unused,
        typed="broker",
    ),
)
