"""Everything a broker serves from its store, read through the real client."""

from collections.abc import Mapping
from typing import Any

from tests.compat.clusters import Cluster
from tests.compat.driver import JavaDriver

COUNT_MAX = 32  # of messages in one pull, as 4.9.3's manifests were made

# What a test gives the broker itself; the rest of a fixture's settings belongs to its store.
_PLACES = {"listenPort", "haListenPort", "namesrvAddr", "brokerIP1", "brokerIP2"}

AGELESS = {
    "fileReservedTime": "876000",  # h; a half message is given up after as long
    "filterDataCleanTimeSpan": str(876_000 * 3_600_000),
}
"""For a store from days gone by: without these a broker deletes and forgets what is that old."""


def store_settings(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings under which a golden store was written, sizes of files above all."""
    settings = {key: x for key, x in manifest["brokerConfig"].items() if key not in _PLACES}
    return settings | AGELESS


def pull_all(driver: JavaDriver, cluster: Cluster, topic: str, queue_id: int) -> list[Any]:
    """Pull a queue from its begin to its end; return the answers, the last one empty."""
    queue = {"topic": topic, "broker": cluster.broker_name, "queueId": queue_id}
    answers = []
    offset = 0
    while True:
        answer = driver("pull", **queue, offset=offset, countMax=COUNT_MAX)
        answers.append(answer)
        if answer["status"] != "FOUND":
            return answers
        offset = answer["nextBeginOffset"]


def summary(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Put an answer of the driver in the words of a manifest's `pulls`."""
    words = {name: answer[name] for name in ("status", "nextBeginOffset", "minOffset", "maxOffset")}
    return {**words, "commitLogOffsets": [x["physicalOffset"] for x in answer["messages"]]}
