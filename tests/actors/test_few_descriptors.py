"""A broker that may open few files keeps enough for its store, and refuses connections above."""

import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.actors.programs import running_up
from tests.broker.harness import send_fields
from tests.compat.frames import RawConnection
from wakelog.protocol.codes import RequestCode, ResponseCode

DESCRIPTORS_COUNT = 256
CLIENTS_COUNT = 150
TOPICS_COUNT = 150
TAKEN_AT_LEAST = 100
SECONDS_MAX = 30

PROGRAM = (
    "-c",
    "import resource, sys; limits = ("
    f"{DESCRIPTORS_COUNT}, {DESCRIPTORS_COUNT}"
    "); resource.setrlimit(resource.RLIMIT_NOFILE, limits);"
    "from wakelog.__main__ import main; sys.exit(main())",
)


def send(connection: RawConnection, topic: str) -> int:
    return connection.ask(RequestCode.SEND_MESSAGE_V2, send_fields(topic), b"body").code


@pytest.mark.slow
def test_a_broker_with_256_descriptors_serves_half_as_many_clients(tmp_path: Path) -> None:
    with running_up(tmp_path / "store", "--local", program=PROGRAM) as up:
        up.wait_ready()
        address = up.addresses[0]
        with ExitStack() as stack, RawConnection(address) as first:
            codes = []
            for _ in range(CLIENTS_COUNT):
                with suppress(OSError):
                    codes.append(send(stack.enter_context(RawConnection(address)), "t"))
            assert codes.count(ResponseCode.SUCCESS) >= TAKEN_AT_LEAST
            assert len(codes) <= DESCRIPTORS_COUNT // 2
            for number in range(TOPICS_COUNT):  # each has files
                assert send(first, f"topic{number}") == ResponseCode.SUCCESS
        send_once_connections_ended(address)
        up.stop()


def send_once_connections_ended(address: str) -> None:
    """Send over a new connection, which is closed at once until the broker noticed the ends."""
    deadline_seconds = time.monotonic() + SECONDS_MAX
    while True:
        with suppress(OSError), RawConnection(address) as later:
            assert send(later, "t") == ResponseCode.SUCCESS
            return
        assert time.monotonic() < deadline_seconds, "no connection is taken any more"
