"""Actions on the settings of groups: create, change, pause and resume."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from wakelog.client.admin import Admin
from wakelog.console.actions.action import Action, Field, PreviewCommand, Values, words_of
from wakelog.console.actions.topics import BROKER, CLUSTER, TOPIC
from wakelog.console.quantities import counted
from wakelog.console.views.groups import settings_of
from wakelog.protocol.bodies import SubscriptionGroupConfig

GROUP: Final = TOPIC._replace(name="group", label="Group")


def _switch(name: str, label: str, value: str = "") -> Field:
    return Field(name, label, "switch", value, is_required=False)


SETTINGS: Final = (
    _switch("consume", "May consume", "true"),
    _switch("broadcast", "May broadcast", "true"),
    _switch("first", "Begins at the first message, without an offset"),
    _switch("notify", "Its clients are notified of each other", "true"),
    Field("retries", "Retries until it is a dead letter", "number", "16", maximum=1_000),
    Field("retry-queues", "Queues of its retries", "number", "1", maximum=65_535),
    Field("broker-id", "Id of the replica that it pulls from", "number", "0", help="0: master"),
    Field("slow-broker-id", "Id of the replica when it is slow", "number", "1"),
)


UPDATE: Final = words_of(
    "admin updateSubGroup [-b {broker}|-c {cluster}] -g {group} -s [{consume}|false] "
    "-m [{first}|false] -d [{broadcast}|false] -a [{notify}|false] -r {retries} "
    "-q {retry-queues} -i {broker-id} -w {slow-broker-id}"
)


def values_of(config: SubscriptionGroupConfig) -> dict[str, str]:
    """Return what the fields of a form are for a group as it is."""
    return {
        "consume": _true(config.consume_enable),
        "broadcast": _true(config.consume_broadcast_enable),
        "first": _true(config.consume_from_min_enable),
        "notify": _true(config.notify_consumer_ids_changed_enable),
        "retries": str(config.retry_max_times),
        "retry-queues": str(config.retry_queue_nums),
        "broker-id": str(config.broker_id),
        "slow-broker-id": str(config.which_broker_when_consume_slowly),
    }


def _true(is_so: bool) -> str:
    return "true" if is_so else ""


def _wanted(values: Values) -> SubscriptionGroupConfig:
    return SubscriptionGroupConfig(
        values["group"],
        bool(values["consume"]),
        bool(values["first"]),
        bool(values["broadcast"]),
        int(values["retry-queues"]),
        int(values["retries"]),
        int(values["broker-id"]),
        int(values["slow-broker-id"]),
        bool(values["notify"]),
    )


def changes_of(
    found: Sequence[SubscriptionGroupConfig | None], wanted: SubscriptionGroupConfig
) -> list[str]:
    """Return what becomes of a group, in sentences. found: at each broker, None where it is not."""
    changed: Counter[tuple[str, str, str]] = Counter()
    after = settings_of(wanted)
    for before in map(settings_of, filter(None, found)):
        changed.update((x, y, after[x]) for x, y in before.items() if y != after[x])
    said = [
        f"{label} is {now}, and will be {then} at {counted(count, 'broker')}"
        for (label, now, then), count in changed.items()
    ]
    if new := sum(config is None for config in found):
        said.insert(0, f"the group is new at {counted(new, 'broker')}")
    return said or [f"nothing changes at {counted(len(found), 'broker')}"]


async def _before_update(admin: Admin, values: Values) -> list[str]:
    one = values["broker"]
    addresses = [one] if one else await admin.masters(values["cluster"])
    found = [(await admin.groups(address)).get(values["group"]) for address in addresses]
    return changes_of(found, _wanted(values))


def _pausing(name: str) -> PreviewCommand:
    def sums(rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """Say what a pause or its end comes to. rows: a broker each, and the whole at the end."""
        brokers = [row for row in rows if "mayConsume" in row]
        changed = sum(row["mayConsume"] != row["will"] for row in brokers)
        whole = next(row for row in rows if "lag" in row)
        clients = counted(whole["clients"], "client")
        return [
            f"{counted(changed, 'broker')} of {len(brokers)} will be asked to {name} it",
            f"{clients} of it now online, {counted(whole['lag'], 'message')} waiting for it",
            "what comes until then waits, as far as the brokers keep it",
        ][: 3 if name == "pause" else 2]

    return PreviewCommand(words_of(f"{name} {{group}}"), sums)


ACTIONS: Final = (
    Action(
        "create-group",
        "Create group",
        (GROUP, CLUSTER, BROKER, *SETTINGS),
        UPDATE,
        "/groups",
        _before_update,
        does="A consumer makes its own group, where autoCreateSubscriptionGroup allows it.",
    ),
    Action(
        "change-group",
        "Change group",
        (GROUP, CLUSTER, BROKER, *SETTINGS),
        UPDATE,
        "/groups/{group}",
        _before_update,
        does="Each broker keeps settings of its own. All of these are set.",
    ),
    Action(
        "pause-group",
        "Pause group",
        (GROUP,),
        words_of("pause {group} --yes"),
        "/groups/{group}",
        shown=_pausing("pause"),
        does="Brokers refuse its pulls (consumeEnable=false). Its clients stay online, and wait.",
    ),
    Action(
        "resume-group",
        "Resume group",
        (GROUP,),
        words_of("resume {group} --yes"),
        "/groups/{group}",
        shown=_pausing("resume"),
        does="It consumes again from where it was.",
    ),
)
