"""What a server keeps of a request between its turn and its response."""

import sys

from tests.network.fakes import FakeHandler
from tests.network.turn_bench import Bench, frames, opaques_of
from wakelog.protocol.command import RESPONSE_FLAG, RemotingCommand


def test_a_deferred_request_is_not_kept_until_its_response() -> None:
    """Sends of 4 MiB may wait for a slave that acknowledges nothing."""
    bench, body = Bench(FakeHandler()), bytes(100)

    def rule(request: RemotingCommand) -> str:
        request.body = body
        return "later"

    bench.handler.rule = rule
    connection, transport = bench.connection()
    before = sys.getrefcount(body)
    connection.data_received(frames(1))
    bench.loop.run_until_quiet()
    bench.handler.processed.clear()
    assert sys.getrefcount(body) == before
    ((_, reply),) = bench.deferred
    reply(RemotingCommand(0, 1, RESPONSE_FLAG))
    bench.loop.run_until_quiet()
    assert opaques_of(transport) == [1]
