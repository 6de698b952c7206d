"""SendRun: which frames belong to a run, and that each is still the command that it was."""

import json

import pytest

from tests.twins import twins, use_twin
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import ONEWAY_FLAG, RESPONSE_FLAG, RemotingCommand, make_request
from wakelog.protocol.frame import FrameDecoder, encode_frame
from wakelog.protocol.send_run import RUN_FRAME_BYTES_MAX, RUN_MESSAGES_MAX, SendRun

FIELDS = {
    "a": "producers",
    "b": "orders",
    "c": "TBW102",
    "d": "4",
    "e": "1",
    "f": "0",
    "g": "1700000000000",
    "h": "0",
    "i": "TAGS\x01red",
}


@pytest.fixture(params=twins(), autouse=True)
def _twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    use_twin(request.param, monkeypatch)


def send(opaque: int = 0, body: bytes = b"body", flag: int = 0, **changes: str) -> bytes:
    request = make_request(RequestCode.SEND_MESSAGE_V2, FIELDS | changes, body, opaque=opaque)
    request.flag = flag
    return encode_frame(request)


def gathered(data: bytes) -> list[RemotingCommand]:
    return FrameDecoder(gathers_sends=True).feed(data)


def taken(commands: list[RemotingCommand]) -> list[RemotingCommand]:
    """Return every command, those of runs among them."""
    found: list[RemotingCommand] = []
    for each in commands:
        if isinstance(each, SendRun):
            found += [each.next_command() for _ in range(each.left_count)]
        else:
            found.append(each)
    return found


def test_sends_of_a_chunk_are_runs_of_a_bounded_length() -> None:
    data = b"".join(send(opaque) for opaque in range(2 * RUN_MESSAGES_MAX + 1))
    runs = gathered(data)
    assert [run.left_count for run in runs if isinstance(run, SendRun)] == [
        *(RUN_MESSAGES_MAX, RUN_MESSAGES_MAX, 1)
    ]
    assert taken(runs) == FrameDecoder().feed(data)


def test_another_request_ends_a_run_and_keeps_its_place() -> None:
    other = encode_frame(make_request(RequestCode.HEART_BEAT, opaque=7))
    data = send(1) + send(2) + other + send(3)
    commands = gathered(data)
    assert [isinstance(each, SendRun) for each in commands] == [True, False, True]
    assert [each.opaque for each in taken(commands)] == [1, 2, 7, 3]


def test_header_and_body_are_those_of_the_frame() -> None:
    [run] = gathered(send(5, b"five", ONEWAY_FLAG) + send(6))
    assert isinstance(run, SendRun)
    assert run.head_of(0) == (5, ONEWAY_FLAG)
    assert run.queues == (("orders", 1),)
    _, body_begin, end = run.place_of(0)
    assert bytes(run.chunk[body_begin:end]) == b"five"


@pytest.mark.parametrize(
    "data",
    [
        send(flag=RESPONSE_FLAG),
        send(m="true"),
        send(z="of a later release"),
        send(e="one"),
        send(body=b"x" * RUN_FRAME_BYTES_MAX),
        send(i="k\x01" + "v" * 9_000),
        encode_frame(make_request(RequestCode.SEND_MESSAGE, FIELDS, opaque=0)),
    ],
)
def test_what_is_no_plain_send_is_a_command(data: bytes) -> None:
    [command] = gathered(data)
    assert type(command) is RemotingCommand
    assert [command] == FrameDecoder().feed(data)


def test_a_header_with_spaces_is_a_command() -> None:
    header = json.dumps({"code": 310, "extFields": FIELDS}).encode()
    frame = (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header
    [command] = gathered(frame)
    assert type(command) is RemotingCommand


def test_a_frame_that_comes_in_two_chunks_is_gathered() -> None:
    data = send(1) + send(2)
    decoder = FrameDecoder(gathers_sends=True)
    assert decoder.feed(data[:40]) == []
    [run] = decoder.feed(data[40:])
    assert isinstance(run, SendRun)
    assert [each.opaque for each in taken([run])] == [1, 2]
