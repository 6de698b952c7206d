"""What is wrong with stores and services, as brokers tell of themselves; 4.9.3 tells nothing."""

from collections.abc import Iterator
from typing import Final

from wakelog.broker.health_values import read_actors, read_store
from wakelog.console.history import BEGUN, History
from wakelog.console.quantities import bytes_text, span_text
from wakelog.console.rules import Finding, say
from wakelog.console.runtime_values import runtime_number
from wakelog.console.subjects import broker_text

BEGUN_COUNT_MIN: Final = 3
"""Of one service in the last hour, after its first start."""
ATTACH_MS: Final = 60_000
"""What a broker has after its start until all services work for it."""


def store_findings(history: History) -> Iterator[Finding]:
    """Yield the logs that are damaged."""
    for broker in history.latest.brokers:
        health = read_store(broker.values)
        root = broker.settings.get("storePathRootDir", "DIR")
        if health is not None and health.damaged_bytes:
            size = bytes_text(health.damaged_bytes)
            yield say("log damaged", broker_text(broker), size=size, root=root)
        if health is not None and health.changed_blocks:
            count = health.changed_blocks
            yield say("log changed", broker_text(broker), count=count, root=root)


def service_findings(history: History) -> Iterator[Finding]:
    """Yield the services that are away, and those that begin again and again."""
    now_ms = history.latest.taken_ms
    for broker in history.latest.brokers:
        boot_ms = runtime_number(broker.values, "bootTimestamp")
        is_new = boot_ms is None or now_ms - boot_ms < ATTACH_MS
        for name, actor in read_actors(broker.values).items():
            if not actor.is_attached and not is_new:
                yield say("service away", broker_text(broker), name=name)
            change = history.change(BEGUN, f"{broker.address} {name}")
            if change is not None and change.grown >= BEGUN_COUNT_MIN:
                elapsed = span_text(change.elapsed_ms)
                count = int(change.grown)
                about = broker_text(broker)
                yield say("service restarts", about, name=name, count=count, elapsed=elapsed)
