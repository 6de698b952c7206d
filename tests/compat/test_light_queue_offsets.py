"""Offsets of light queues: the file in which a real broker keeps them, and ours, byte for byte.

It stands in for consumerOffset.json under `enableLmq`.
"""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.compat.clusters import Starter, local_cluster, real_cluster
from tests.compat.frames import RawConnection
from wakelog.broker.consumer_offsets import ConsumerOffsets

pytestmark = [pytest.mark.java, pytest.mark.slow]

UPDATE_OFFSET = 15
SETTINGS = {"enableLmq": "true", "enableMultiDispatch": "true"}
COMMITS: list[dict[str, Any]] = [
    {"consumerGroup": "%LMQ%group", "topic": "%LMQ%queue", "queueId": 0, "commitOffset": 41},
    {"consumerGroup": "group", "topic": "topic", "queueId": 3, "commitOffset": 7},
]


def kept_by(start: Starter, folder: Path) -> str:
    """Commit offsets at a fresh broker, stop it in order, and return the text of its file."""
    with start(folder, settings=SETTINGS) as cluster:
        with RawConnection(cluster.broker) as connection:
            for fields in COMMITS:
                assert connection.ask(UPDATE_OFFSET, fields).code == 0
        store = cluster.store
    assert not (store / "config" / "consumerOffset.json").exists()
    return (store / "config" / "lmqConsumerOffset.json").read_text()


def test_both_keep_the_offsets_of_light_queues_alike(tmp_path: Path) -> None:
    theirs = kept_by(partial(real_cluster, in_order=True), tmp_path / "real")
    assert kept_by(local_cluster, tmp_path / "ours") == theirs
    read = ConsumerOffsets(lmq=True)
    read.load(theirs)
    for fields in COMMITS:
        place = fields["consumerGroup"], fields["topic"], fields["queueId"]
        assert read.query(*place) == fields["commitOffset"]
