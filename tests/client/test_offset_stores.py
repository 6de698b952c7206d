"""Offsets at brokers and in a file."""

import asyncio
from pathlib import Path

import pytest

from tests.client.clusters import NAME_SERVER
from tests.client.group_cluster import GroupCluster, two_queues
from wakelog.client.errors import ClientError
from wakelog.client.group_calls import GroupCalls
from wakelog.client.offset_stores import BrokerOffsets, FileOffsets
from wakelog.client.options import ClientOptions
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.command import RemotingCommand

Q0, Q1 = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1)


def test_brokers_have_the_offsets_of_a_group() -> None:
    async def run() -> None:
        cluster = two_queues()
        cluster.first["a", "T", 0] = 1
        instance = cluster.join(ClientOptions((NAME_SERVER,), retries_max=0))
        calls = GroupCalls(instance, "g")
        await calls.queues("T")
        offsets = BrokerOffsets(calls)
        assert await offsets.read(Q0) is None
        assert await offsets.write({Q0: 3, Q1: 4}) == {}
        assert (await offsets.read(Q0), await offsets.read(Q1)) == (3, 4)
        cluster.refuse("a:10911")
        [failure] = (await offsets.write({Q0: 5})).values()
        assert "does not answer UPDATE_CONSUMER_OFFSET" in failure.cause

    asyncio.run(run())


FOUR_EACH = {MessageQueue("T", broker, n): n + 1 for broker in ("b", "a") for n in range(4)}


async def store_at_two_brokers() -> tuple[GroupCluster, BrokerOffsets]:
    cluster = GroupCluster({(each.broker_name, "T", each.queue_id): [] for each in FOUR_EACH})
    calls = GroupCalls(cluster.join(ClientOptions((NAME_SERVER,), retries_max=0)), "g")
    await calls.queues("T")
    return cluster, BrokerOffsets(calls)


def committed_at(cluster: GroupCluster, broker: str) -> list[int]:
    return sorted(n for (_, name, _, n) in cluster.committed if name == broker)


def test_a_broker_that_is_down_keeps_no_commit_from_the_others() -> None:
    async def run() -> None:
        cluster, store = await store_at_two_brokers()
        cluster.refuse("b:10911")
        for _ in range(2):
            failures = await store.write(FOUR_EACH)
            assert failures.keys() == {each for each in FOUR_EACH if each.broker_name == "b"}
            assert all("b:10911" in failure.cause for failure in failures.values())
            assert committed_at(cluster, "a") == [0, 1, 2, 3]
            cluster.committed.clear()
        cluster.refuse("nobody")
        assert await store.write(FOUR_EACH) == {}
        assert committed_at(cluster, "a") == committed_at(cluster, "b") == [0, 1, 2, 3]

    asyncio.run(run())


def test_a_broker_that_is_slow_delays_no_commit_at_the_others() -> None:
    async def run() -> None:
        cluster, store = await store_at_two_brokers()
        invoke, may_answer, others_have_it = cluster.invoke, asyncio.Event(), asyncio.Event()

        async def slow(
            address: str, command: RemotingCommand, *, timeout_ms: int
        ) -> RemotingCommand:
            if address == "b:10911":
                await may_answer.wait()
            answered = await invoke(address, command, timeout_ms=timeout_ms)
            if committed_at(cluster, "a") == [0, 1, 2, 3]:
                others_have_it.set()
            return answered

        cluster.invoke = slow  # type: ignore[method-assign]
        written = asyncio.ensure_future(store.write(FOUR_EACH))
        await asyncio.wait_for(others_have_it.wait(), 30)
        assert committed_at(cluster, "b") == []
        may_answer.set()
        await written
        assert committed_at(cluster, "b") == [0, 1, 2, 3]

    asyncio.run(run())


def test_a_file_has_the_offsets_of_a_client(tmp_path: Path) -> None:
    async def run() -> None:
        offsets = FileOffsets(tmp_path, "1.2.3.4@DEFAULT", "g")
        assert await offsets.read(Q0) is None
        await offsets.write({Q0: 3})
        await offsets.write({Q1: 4})
        again = FileOffsets(tmp_path, "1.2.3.4@DEFAULT", "g")
        assert (await again.read(Q0), await again.read(Q1)) == (3, 4)

    asyncio.run(run())
    path = tmp_path / "1.2.3.4@DEFAULT" / "g" / "offsets.json"
    assert path.read_text() == (
        '{"offsetTable":{{"brokerName":"a","queueId":0,"topic":"T"}:3,'
        '{"brokerName":"a","queueId":1,"topic":"T"}:4}}'
    )


def test_a_damaged_file_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "c" / "g" / "offsets.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"offsetTable":')
    with pytest.raises(ClientError, match="cannot be read"):
        FileOffsets(tmp_path, "c", "g")


def test_a_folder_without_a_way_in_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("")
    with pytest.raises(ClientError):
        asyncio.run(FileOffsets(tmp_path / "c", "c", "g").write({Q0: 1}))


@pytest.mark.parametrize("text", ["", " \n", "{", None])
def test_an_older_file_counts_where_the_newer_one_is_of_no_use(
    tmp_path: Path, text: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    queue = MessageQueue("T", "b", 1)
    asyncio.run(FileOffsets(tmp_path, "client", "g").write({queue: 7}))
    path = tmp_path / "client" / "g" / "offsets.json"
    path.rename(f"{path}.bak")
    if text is not None:
        path.write_text(text)
    assert asyncio.run(FileOffsets(tmp_path, "client", "g").read(queue)) == 7
    assert f"offsets are those of {path}.bak" in caplog.text
    Path(f"{path}.bak").unlink()
    if text == "{":
        with pytest.raises(ClientError, match=r"offsets\.json cannot be read"):
            FileOffsets(tmp_path, "client", "g")
    else:
        assert asyncio.run(FileOffsets(tmp_path, "client", "g").read(queue)) is None
