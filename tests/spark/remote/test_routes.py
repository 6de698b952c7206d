"""Name servers asked in turn, and what is said when none helps."""

from __future__ import annotations

import asyncio

import pytest

from tests.spark.sink.messages import FakeCluster
from wakelog.network.errors import ConnectFailed
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.spark.remote.routes import WireFailed, find_route, said

SERVERS = ("gone:1", "names:9876")


def test_the_first_that_answers_says_where_a_topic_is() -> None:
    cluster = FakeCluster({"T": {"a": 2}})

    def fail(address: str, command: RemotingCommand) -> RemotingCommand | None:
        if address == "gone:1":
            raise ConnectFailed(address, "Connection refused")
        return None

    cluster.fail = fail
    route = asyncio.run(find_route(cluster, SERVERS, "T", timeout_ms=100))
    assert route is not None and route.queue_datas[0].read_queue_nums == 2
    assert asyncio.run(find_route(cluster, SERVERS, "U", timeout_ms=100)) is None
    with pytest.raises(WireFailed, match=r"where topic T is: gone:1: Connection refused\. Look"):
        asyncio.run(find_route(cluster, SERVERS[:1], "T", timeout_ms=100))


def test_who_answers_nonsense_is_no_name_server() -> None:
    cluster = FakeCluster({"T": {"a": 2}})
    cluster.fail = lambda address, command: answer(command, ResponseCode.SUCCESS, body=b"<html>")
    with pytest.raises(WireFailed, match="the route of topic T cannot be read"):
        asyncio.run(find_route(cluster, SERVERS, "T", timeout_ms=100))
    cluster.fail = lambda address, command: answer(command, ResponseCode.SYSTEM_BUSY)
    with pytest.raises(WireFailed, match=r"gone:1 answered 2 \(SYSTEM_BUSY\): no reason given; na"):
        asyncio.run(find_route(cluster, SERVERS, "T", timeout_ms=100))


def test_a_code_without_a_name_is_said_too() -> None:
    assert said(answer(RemotingCommand(11), 999, "why")) == "999 (unknown): why"
