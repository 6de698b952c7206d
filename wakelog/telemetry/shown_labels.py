"""Labels that no path binds, of rows under names of elsewhere.

What such a row shows of a broker is in ``identity`` of its statistics. A label may also follow from
a name that a path binds: whether a topic is one of RocketMQ's own, or how many members a group has.
Slaves have the same names as their master, so only masters are shown.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

OF_IDENTITY: Final = {
    "cluster": "cluster",
    "broker": "name",
    "node_id": "name",
    "brokerIP": "address",
    "boottime": "started_ms",
    "des": "version_name",
    "broker_version": "version",
}
"""Labels, and what they are called in `identity`."""

MASTER: Final = "master"

Named = Mapping[str, str]


def show_labels(
    shown: tuple[str, ...],
    bound: tuple[str, ...],
    series: Mapping[tuple[str, ...], Any],
    values: Mapping[str, Any],
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield series with the labels that are shown, for those that their paths bind."""
    of_broker = [label for label in shown if label in OF_IDENTITY]
    fixed = {name: _fixed(of_broker, broker) for name, broker in values["brokers"].items()}
    derived = [label for label in shown if label in DERIVED]
    known = [*bound, *of_broker, *derived]
    known[place_of_broker := bound.index("broker")] = ""  # its name here; `node_id` is that of it
    pick = [known.index(label) for label in shown]
    for labels, value in series.items():
        name = labels[place_of_broker]
        texts = fixed[name]
        if texts is not None:
            found = (*labels, *texts)
            if derived:
                named = dict(zip(bound, labels, strict=True))
                found += tuple(DERIVED[label](named, values["brokers"][name]) for label in derived)
            yield tuple([found[place] for place in pick]), value


def _fixed(shown: list[str], broker: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the labels that all series of a broker have, None for a slave."""
    identity = broker.get("identity", {})
    if identity.get("role") != MASTER:
        return None
    return tuple(str(identity[OF_IDENTITY[label]]) for label in shown)


def _is_system(named: Named, broker: Mapping[str, Any]) -> str:
    topic, group, system = named.get("topic"), named.get("consumer_group"), broker["system"]
    is_system = topic is not None and _is_own(topic, system["topics"])
    return _flag(is_system or (group is not None and _is_own(group, system["groups"])))


def _is_own(name: str, own: Mapping[str, Any]) -> bool:
    return name in own["names"] or name.startswith(own["prefix"])


def _is_retry(named: Named, _: Mapping[str, Any]) -> str:
    return _flag(named["topic"].startswith("%RETRY%"))


def _flag(value: bool) -> str:
    return str(value).lower()


def _member(name: str, default: str) -> Callable[[Named, Mapping[str, Any]], str]:
    """Return the rule of a label that says something of the members of a group."""

    def find(named: Named, broker: Mapping[str, Any]) -> str:
        return str(broker["members"]["groups"].get(named["group"], {}).get(name, default))

    return find


DERIVED: Final[dict[str, Callable[[Named, Mapping[str, Any]], str]]] = {
    "is_system": _is_system,
    "is_retry": _is_retry,
    "countOfOnlineConsumers": _member("online_count", "0"),
    "msgModel": _member("model", "1"),
}
"""Labels that follow from others. A group without members is shown as clustering, as it was."""
