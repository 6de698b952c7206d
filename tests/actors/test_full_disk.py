"""A disk that is full, nearly so or read-only: messages are refused, and nothing is lost.

The file system of every service says that it is full: filling a real one is no test's business.
"""

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from tests.actors.client import Client, records
from tests.actors.deployments import running, small_plan, wait_until
from wakelog.dispatchers.consume_queue import FILES_AHEAD_COUNT
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.storage.file_system import DiskUsage, FileSystem
from wakelog.storage.read import recent

pytestmark = pytest.mark.slow

SEGMENT_BYTES = 64 << 10
BODY_BYTES = 10_000
MESSAGES_MAX = 40
"""Far more than the segment in use, which is reserved as a whole, has room for."""


class FullDisk:
    """Lets every file system of this process run out of space, and have some again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        self.used_percent = 50
        reserve = FileSystem.reserve

        def reserve_or_not(fs: FileSystem, fd: int, position: int, length: int) -> None:
            if self.is_full:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            reserve(fs, fd, position, length)

        def usage(_fs: FileSystem, _path: str) -> DiskUsage:
            return DiskUsage(100 << 30, self.used_percent << 30, (100 - self.used_percent) << 30)

        monkeypatch.setattr(FileSystem, "reserve", reserve_or_not)
        monkeypatch.setattr(FileSystem, "disk_usage", usage)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    return FullDisk(monkeypatch)


def run(store: Path, body: Callable[[Client], Awaitable[None]], *settings: str) -> None:
    async def whole() -> None:
        plan = small_plan(store, *settings, segment_bytes=SEGMENT_BYTES)
        async with running(plan) as (_, client):
            await body(client)

    asyncio.run(whole())


async def send_until_refused(client: Client) -> tuple[list[bytes], int]:
    """Return the bodies that were taken, and the code of the refusal, which has the cause."""
    taken: list[bytes] = []
    for number in range(MESSAGES_MAX):
        body = b"%03d" % number * (BODY_BYTES // 3)
        answer = await client.send("t", body)
        if answer.code != ResponseCode.SUCCESS:
            assert os.strerror(errno.ENOSPC) in (answer.remark or "")
            return taken, answer.code
        taken.append(body)
    raise AssertionError("nothing was refused")


async def bodies(client: Client, topic: str) -> list[bytes]:
    found: list[bytes] = []
    while (answer := await client.pull(topic, len(found))).code == ResponseCode.SUCCESS:
        found += [record.body for record in records(answer)]
    return found


async def is_taken(client: Client, topic: str, body: bytes) -> bool:
    return (await client.send(topic, body)).code == ResponseCode.SUCCESS


def test_without_room_for_a_segment_sends_are_refused_and_reads_go_on(
    tmp_path: Path, disk: FullDisk
) -> None:
    async def main(client: Client) -> None:
        first = b"before"
        assert await is_taken(client, "t", first)
        # With the answer it is dispatched: its queue has a file.
        await client.call(RequestCode.GET_MAX_OFFSET, {"topic": "t", "queueId": 0})
        disk.is_full = True
        taken, code = await send_until_refused(client)
        assert taken and code == ResponseCode.SYSTEM_ERROR
        await wait_until(lambda: _equals(client, "t", [first, *taken]), "what was taken")
        disk.is_full = False
        await wait_until(lambda: is_taken(client, "t", b"after"), "a send that is taken")
        expected = [first, *taken, b"after"]
        await wait_until(lambda: _equals(client, "t", expected), "what came after")

    run(tmp_path, main)


def test_a_store_that_turns_read_only_refuses_sends_until_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    async def before(client: Client) -> None:
        assert await is_taken(client, "t", b"before")
        await wait_until(lambda: _equals(client, "t", [b"before"]), "the first")
        with monkeypatch.context() as patched:
            for name in ("reserve", "pwrite", "pwritev"):
                patched.setattr(FileSystem, name, refuse)
            for _ in range(3):
                answer = await client.send("t", b"refused")
                assert answer.code != ResponseCode.SUCCESS
                assert os.strerror(errno.EROFS) in (answer.remark or "")
            assert await bodies(client, "t") == [b"before"]

    async def after(client: Client) -> None:
        assert await is_taken(client, "t", b"after")
        await wait_until(lambda: _equals(client, "t", [b"before", b"after"]), "what was taken")

    run(tmp_path, before)
    run(tmp_path, after)


async def _equals(client: Client, topic: str, expected: list[bytes]) -> bool:
    return await bodies(client, topic) == expected


def test_without_room_for_a_queue_messages_are_seen_once_there_is(
    tmp_path: Path, disk: FullDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent, "SCAN_BYTES_MAX", 0)  # none is shown before it is in its queue
    monkeypatch.setattr(recent, "RECORD_BYTES_MAX", 0)

    async def main(client: Client) -> None:
        await client.send("t", b"before")
        await wait_until(lambda: _equals(client, "t", [b"before"]), "the first")
        disk.is_full = True
        # New topics need new files, of which some were made ahead; the messages are in the log all
        # the same.
        new = [f"new{number}" for number in range(FILES_AHEAD_COUNT + 1)]
        for topic in new:
            assert await is_taken(client, topic, b"hidden")
        assert await is_taken(client, "t", b"behind it")
        assert await bodies(client, new[-1]) == []
        disk.is_full = False
        for topic in new:
            await wait_until(partial(_equals, client, topic, [b"hidden"]), "a new topic's")
        await wait_until(lambda: _equals(client, "t", [b"before", b"behind it"]), "the rest")

    run(tmp_path, main)


def test_a_disk_that_is_nearly_full_takes_no_messages(tmp_path: Path, disk: FullDisk) -> None:
    async def main(client: Client) -> None:
        assert await is_taken(client, "t", b"0")
        disk.used_percent = 95

        async def is_refused() -> bool:
            answer = await client.send("t", b"refused")
            if answer.code == ResponseCode.SUCCESS:
                return False
            assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert "disk" in (answer.remark or "")
            return True

        await wait_until(is_refused, "a refusal")
        assert (await bodies(client, "t"))[0] == b"0"
        disk.used_percent = 50
        await wait_until(lambda: is_taken(client, "t", b"1"), "a send that is taken")

    run(tmp_path, main, "cleanResourceInterval=50")
