"""Code 26: the configuration that 4.9.3's broker shows, and ours, key by key."""

import asyncio
from pathlib import Path

import pytest

from tests.actors.client import Client
from tests.compat.clusters import Starter, local_cluster, real_cluster
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.storage.config import WAKELOG_KEYS
from wakelog.storage.settings_text import parse_properties

pytestmark = [pytest.mark.java, pytest.mark.slow]

# Where the two stand on this machine.
PLACES = {
    "brokerIP1",
    "brokerIP2",
    "haListenPort",
    "listenPort",
    "namesrvAddr",
    "rocketmqHome",
    "storePathCommitLog",
    "storePathRootDir",
}
# Sizes of pools that 4.9.3 takes from the number of cores.
CORES = {
    "clientCallbackExecutorThreads",
    "endTransactionThreadPoolNums",
    "heartbeatThreadPoolNums",
    "processReplyMessageThreadPoolNums",
    "pullMessageThreadPoolNums",
    "putMessageFutureThreadPoolNums",
    "queryMessageThreadPoolNums",
    "sendMessageThreadPoolNums",
}


def shown_by(start: Starter, folder: Path) -> dict[str, str]:
    """Return what a fresh broker shows."""

    async def ask(address: str) -> bytes:
        client = Client(address)
        answer = await client.call(RequestCode.GET_BROKER_CONFIG, {})
        await client.close()
        assert answer.code == ResponseCode.SUCCESS
        return answer.body

    with start(folder) as cluster:
        return parse_properties(asyncio.run(ask(cluster.broker)).decode())


def test_both_show_the_same_keys_with_the_same_defaults(tmp_path: Path) -> None:
    theirs = shown_by(real_cluster, tmp_path / "real")
    ours = shown_by(local_cluster, tmp_path / "ours")
    assert ours.keys() - theirs.keys() == WAKELOG_KEYS
    assert not theirs.keys() - ours.keys()
    differing = {key for key in theirs if theirs[key] != ours[key]}
    assert differing <= PLACES | CORES
