"""Delays by time, with the table of the broker."""

import asyncio
from datetime import timedelta

import pytest

from tests.client.clusters import NAME_SERVER, FakeCluster
from wakelog.client.delays import Delays
from wakelog.client.errors import ClientError, InvalidArgument
from wakelog.client.options import ClientOptions
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer


def level(cluster: FakeCluster, delay: timedelta) -> int:
    async def run() -> int:
        delays = Delays(cluster, ClientOptions((NAME_SERVER,), retries_max=0))
        assert await delays.level(delay, "a:10911") == await delays.level(delay, "a:10911")
        assert len(cluster.asked) <= 1  # the table is read once
        return await delays.level(delay, "a:10911")

    return asyncio.run(run())


@pytest.mark.parametrize(("seconds", "expected"), [(0, 0), (0.5, 1), (1, 1), (1.001, 2), (10, 3)])
def test_a_delay_has_the_shortest_level_that_is_long_enough(seconds: float, expected: int) -> None:
    assert level(FakeCluster(), timedelta(seconds=seconds)) == expected


@pytest.mark.parametrize("delay", [timedelta(microseconds=-1), timedelta(seconds=-5)])
def test_a_delay_below_0_is_refused(delay: timedelta) -> None:
    with pytest.raises(InvalidArgument, match=r"delay is .*Give a time of 0 or more"):
        level(FakeCluster(), delay)


def test_a_delay_over_every_level_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="over 0:00:10, the longest of a:10911"):
        level(FakeCluster(), timedelta(seconds=11))


def refusing(code: ResponseCode, remark: str) -> FakeCluster:
    def refuse(address: str, command: RemotingCommand) -> RemotingCommand:
        assert command.code == RequestCode.GET_BROKER_CONFIG
        return answer(command, code, remark)

    cluster = FakeCluster()
    cluster.fail = refuse
    return cluster


@pytest.mark.parametrize(
    ("code", "remark"),
    [
        (ResponseCode.SYSTEM_ERROR, "AclException: no"),
        (ResponseCode.NO_PERMISSION, "no"),
        (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "no such request"),
    ],
)
def test_an_account_that_may_not_read_the_table_has_the_usual_one(
    code: ResponseCode, remark: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert level(refusing(code, remark), timedelta(hours=2)) == 18
    [line] = caplog.messages
    assert line.startswith("a:10911 does not say its delays") and remark in line


@pytest.mark.parametrize(
    ("code", "passes"),
    [
        (ResponseCode.SYSTEM_BUSY, False),
        (ResponseCode.SERVICE_NOT_AVAILABLE, True),
        (ResponseCode.SYSTEM_ERROR, False),
    ],
)
def test_a_refusal_for_now_is_an_error_and_the_table_is_read_later(
    code: ResponseCode, passes: bool
) -> None:
    async def run() -> None:
        cluster = refusing(code, "later")
        delays = Delays(cluster, ClientOptions((NAME_SERVER,), retries_max=0))
        with pytest.raises(ClientError, match=r"GET_BROKER_CONFIG .*later") as raised:
            await delays.level(timedelta(seconds=10), "a:10911")
        assert raised.value.passes is passes
        cluster.fail = lambda *_: None
        assert (
            await delays.level(timedelta(seconds=10), "a:10911") == 3
        )  # the broker's, not 4.9.3's

    asyncio.run(run())


def test_a_broker_that_does_not_answer_is_an_error() -> None:
    cluster = FakeCluster()
    cluster.refuse("a:10911")
    with pytest.raises(ClientError, match="a:10911 does not answer"):
        level(cluster, timedelta(hours=2))
