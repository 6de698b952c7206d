"""A name server under hostile frames: it answers, quickly, keeps its invariants and no memory."""

import pytest

from tests.hostile_frames import Attack, HostileFrames, Process
from tests.nameserver.harness import VERSION, Announced, Harness
from wakelog.nameserver.processors import PROCESSORS
from wakelog.protocol.bodies import TopicConfig, encode_body
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, make_request

FRAMES_COUNT = 5_000
LONG = (pytest.mark.long, pytest.mark.timeout(900))
LONG_FRAMES_COUNT = 200_000

_BROKER = Announced(topics=(TopicConfig("T"), TopicConfig("U", 1, 1)), filter_servers=("a:1",))
_FIELDS = {
    **{"namespace": "n", "key": "k", "value": "v", "topic": "T", "cluster": "c1"},
    **_BROKER.identity(),
}


def valid_requests() -> list[RemotingCommand]:
    """Return a request of every code, registrations in every form."""
    requests = [make_request(code, _FIELDS, opaque=0) for code in PROCESSORS]
    unchecked = [_BROKER.request(compressed=compressed) for compressed in (False, True)]
    for request in unchecked:
        request.ext_fields["bodyCrc32"] = "0"
    requests += [_BROKER.request(), *unchecked, *unchecked]
    for code, body in (
        (Code.QUERY_DATA_VERSION, encode_body(VERSION)),
        (Code.UPDATE_NAMESRV_CONFIG, b"orderMessageEnable=true\nlistenPort=1"),
    ):
        requests.append(make_request(code, _FIELDS, body, opaque=0))
    return requests


@pytest.mark.slow
@pytest.mark.parametrize("count", [FRAMES_COUNT, pytest.param(LONG_FRAMES_COUNT, marks=LONG)])
def test_hostile_frames_are_answered_quickly_and_leave_nothing(count: int) -> None:
    harnesses: list[Harness] = []

    def make_core() -> Process:
        for harness in harnesses:
            harness.core.validate()
        harness = Harness()
        harnesses[:] = [harness]

        def process(command: RemotingCommand) -> list[RemotingCommand]:
            response = harness.send(command, command.opaque % 5)
            harness.core.take_instructions()
            if command.opaque % 500 == 0:
                harness.close(command.opaque % 5)
            return [] if response is None else [response]

        return process

    attack = Attack(make_core)
    attack.run(HostileFrames(valid_requests()), count)
    harnesses[0].core.validate()
    attack.check()
    assert attack.closed_count > count // 100
    assert attack.codes[ResponseCode.SUCCESS] > count // 10
    assert attack.codes[ResponseCode.SYSTEM_ERROR] > count // 20
