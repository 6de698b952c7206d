"""A running broker writes to the log of every appender of 4.9.3, with actor and epoch."""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.actors.client import Client
from tests.actors.deployments import running, small_plan, wait_until
from wakelog.actors.deploy.plan import Plan
from wakelog.protocol.bodies import (
    CheckClientRequestBody,
    LockBatchRequestBody,
    SubscriptionData,
    encode_body,
)
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.record import MAGIC_OFFSET, MESSAGE_MAGIC
from wakelog.telemetry.logs import (
    FILES_OF_BROKER,
    Log,
    LogFormat,
    configure_logs,
    file_name,
    unconfigure_logs,
)

pytestmark = [pytest.mark.process, pytest.mark.slow]

EPOCH = 7
BODY = b"a body that belongs in no log"
LOGS_OF_BROKER = [log for log in Log if log is not Log.NAME_SERVER]


@pytest.fixture(params=list(LogFormat))
def log_format(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LogFormat]:
    log_format: LogFormat = request.param
    directory = tmp_path / "logs"
    configure_logs(directory, actor=FILES_OF_BROKER, epoch=EPOCH, log_format=log_format)
    yield log_format
    unconfigure_logs()


def lines_of(directory: Path, log: Log) -> list[str]:
    path = directory / "logs" / file_name(log.value, FILES_OF_BROKER)
    return path.read_text().splitlines() if path.exists() else []


async def leave_bytes_behind_the_end(plan: Plan) -> None:
    """Run a broker once and put what is no message behind its log's end."""
    async with running(plan) as (deployment, client):
        assert (await client.send("T", BODY)).code == ResponseCode.SUCCESS
        found = await deployment.statistics()
        [broker] = found["brokers"].values()
    segment = Path(plan.brokers[0].store_directory, "commitlog", f"{0:020}")
    with segment.open("r+b") as file:
        file.seek(broker["watermarks"]["appended"])
        file.write(b"not a message")


async def cause_every_line(client: Client, plan: Plan) -> None:
    sent = await asyncio.gather(*(client.send("T", BODY) for _ in range(100)))
    codes = {answer.code for answer in sent}
    assert codes == {ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY}, "some are refused"
    half = await client.send("T", BODY, properties="TRAN_MSG\x01true\x02")
    assert half.code == ResponseCode.NO_PERMISSION
    lock = LockBatchRequestBody("g", "c", {MessageQueue("T", plan.brokers[0].name, 0)})
    await client.call(RequestCode.LOCK_BATCH_MQ, {}, encode_body(lock))
    sql = SubscriptionData(topic="T", sub_string="a > 1", expression_type="SQL92")
    check = CheckClientRequestBody(subscription_data=sql)
    await client.call(RequestCode.CHECK_CLIENT_CONFIG, {}, encode_body(check))
    await client.call(RequestCode.CLEAN_UNUSED_TOPIC, {})
    host, _, port = client.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"\x7f" * 64)  # a frame longer than any
    assert await reader.read() == b""
    writer.close()


def test_every_appender_has_lines(tmp_path: Path, log_format: LogFormat) -> None:
    settings = ("sendThreadPoolQueueCapacity=2", "rejectTransactionMessage=true")
    plan = small_plan(tmp_path / "store", *settings)

    async def main() -> None:
        await leave_bytes_behind_the_end(plan)
        async with running(plan) as (_, client):
            await cause_every_line(client, plan)
            await wait_until(lambda: lines_of(tmp_path, Log.WATER_MARK), "a second")
            await wait_until(lambda: lines_of(tmp_path, Log.AUDIT), "its thread")

    asyncio.run(main())
    for log in LOGS_OF_BROKER:
        lines = lines_of(tmp_path, log)
        assert lines, f"nothing in {log.value.file_stem}"
        for line in lines:
            assert origin(line, log_format) == (FILES_OF_BROKER, EPOCH)
            assert BODY.decode() not in line


def origin(line: str, log_format: LogFormat) -> tuple[Any, Any]:
    """Return the actor and the epoch of a line."""
    if log_format is LogFormat.JSON:
        values = json.loads(line)
        return values["actor"], values["epoch"]
    words = dict(word.split("=", 1) for word in line.split() if "=" in word)
    return words["actor"], int(words["epoch"])


def test_a_copy_of_what_was_cut_is_said_at_the_start(tmp_path: Path) -> None:
    plan = small_plan(tmp_path / "store")

    async def main() -> list[str]:
        await leave_bytes_behind_the_end(plan)
        async with running(plan) as (deployment, _):
            return deployment.notices()

    [line] = asyncio.run(main())
    assert line.startswith("broker-a: 13 bytes at ")
    assert os.path.getsize(line.rpartition(" ")[2]) == len(b"not a message")


def test_damage_to_the_last_message_is_said_and_the_broker_goes_on(tmp_path: Path) -> None:
    plan = small_plan(tmp_path / "store")
    segment = Path(plan.brokers[0].store_directory, "commitlog", f"{0:020}")

    async def main() -> tuple[list[str], int, int]:
        async with running(plan) as (deployment, client):
            for _ in range(2):
                assert (await client.send("T", BODY)).code == ResponseCode.SUCCESS
            [broker] = (await deployment.statistics())["brokers"].values()
        end = broker["watermarks"]["appended"]
        magic = MESSAGE_MAGIC.to_bytes(4, "big", signed=True)
        place = segment.read_bytes().rindex(magic) - MAGIC_OFFSET
        with segment.open("r+b") as file:
            file.seek(place)
            file.write(bytes(20))
        async with running(plan) as (deployment, client):
            assert (await client.send("T", BODY)).code == ResponseCode.SUCCESS
            return deployment.notices(), place, end

    [line], place, end = asyncio.run(main())
    assert line.startswith(f"broker-a: bytes {place} to {end} of the log are damaged")
