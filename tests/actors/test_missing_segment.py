"""A broker whose log lost a segment in the middle serves the rest, and says why it takes none."""

import asyncio
from pathlib import Path

import pytest

from tests.actors.client import Client, records
from tests.actors.deployments import running, small_plan
from wakelog.protocol.codes import ResponseCode

pytestmark = pytest.mark.slow

SEGMENT_BYTES = 64 << 10
MESSAGES_COUNT = 200
BODY = b"." * 2_000


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


async def pull_on(client: Client) -> list[int]:
    """Return the numbers of the messages that a consumer gets which goes where it is sent."""
    found: list[int] = []
    offset = 0
    while True:
        answer = await client.pull("t", offset)
        if answer.code == ResponseCode.PULL_NOT_FOUND:
            return found
        if answer.code == ResponseCode.SUCCESS:
            found += [int(record.body[:4]) for record in records(answer)]
        offset = int(answer.ext_fields["nextBeginOffset"])


def test_all_else_is_served_and_sends_are_refused_with_the_reason(tmp_path: Path) -> None:
    store = tmp_path / "store"

    async def fill() -> dict[int, int]:
        async with running(small_plan(store, segment_bytes=SEGMENT_BYTES)) as (_, client):
            places = {}
            for number in range(MESSAGES_COUNT):
                answer = await client.send("t", b"%4d" % number + BODY)
                assert answer.code == ResponseCode.SUCCESS
                places[number] = int(answer.ext_fields["msgId"][16:], 16)
            return places

    async def go_on(kept: list[int]) -> None:
        plan = small_plan(store, segment_bytes=SEGMENT_BYTES)
        async with running(plan) as (deployment, client):
            assert any("segments are missing" in line for line in deployment.notices())
            assert await pull_on(client) == kept
            for _ in range(2):
                answer = await client.send("t", b"more")
                assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
                assert f"bytes {2 * SEGMENT_BYTES} to {3 * SEGMENT_BYTES}" in (answer.remark or "")

    places = asyncio.run(fill())
    log = store / "commitlog"
    segments = sorted(log.iterdir())
    assert len(segments) > 4
    segments[2].unlink()
    left = contents(log)
    kept = [number for number, place in places.items() if place // SEGMENT_BYTES != 2]
    for _ in range(2):
        asyncio.run(go_on(kept))
        assert contents(log) == left
