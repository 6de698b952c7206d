"""Light queues of a real broker and of ours: the file of their offsets, and their limit.

The file stands in for consumerOffset.json under `enableLmq`; both write it byte for byte alike.
"""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.compat.clusters import Starter, local_cluster, real_cluster
from tests.compat.driver import wait_until
from tests.compat.frames import RawConnection
from tests.compat.test_broker_answers import LETTERS, PULLED
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


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(real_cluster, marks=pytest.mark.long, id="real"),
        pytest.param(local_cluster, id="wakelog"),
    ],
)
@pytest.mark.long
def test_too_many_light_queues_are_not_pulled(start: Starter, tmp_path: Path) -> None:
    settings = {**SETTINGS, "maxLmqConsumeQueueNum": "1"}
    light = {**PULLED, "topic": "%LMQ%a", "consumerGroup": "%LMQ%group"}
    with start(tmp_path, settings=settings) as cluster, RawConnection(cluster.broker) as connection:
        for names in ("%LMQ%a", "%LMQ%a,%LMQ%b"):
            properties = f"INNER_MULTI_DISPATCH\x01{names}\x02"
            assert connection.ask(310, {**LETTERS, "i": properties}, b"body").code == 0
        # Neither refuses the send that goes beyond (fact 57).
        wait_until(lambda: connection.ask(11, light).code == 1, what="refused")
        refused = connection.ask(11, light).header["remark"]
        assert refused.startswith("store getMessage return null")
        assert connection.ask(11, PULLED).code == 0
