"""Where brokers disagree about the same topic or group."""

from collections.abc import Iterable, Mapping


def disagreements(settings: Iterable[tuple[str, Mapping[str, str]]]) -> list[str]:
    """Return each setting that is not the same at all brokers, as a part of a sentence.

    settings: of each broker, by its name.
    """
    brokers: dict[str, dict[str, list[str]]] = {}
    for broker, values in settings:
        for label, value in values.items():
            brokers.setdefault(label, {}).setdefault(value, []).append(broker)
    return [_sentence(label, found) for label, found in brokers.items() if len(found) > 1]


def _sentence(label: str, found: Mapping[str, list[str]]) -> str:
    parts = [f"{value} at {', '.join(names)}" for value, names in sorted(found.items())]
    return f"{label}: {'; '.join(parts)}"
