"""A plain send passes few functions of the broker: each is a step that a reader can name."""

import socket
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import wakelog
from tests.broker.harness import send_fields
from wakelog.compiled.library import CHOICE
from wakelog.network.connection import Connection
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import make_request
from wakelog.protocol.frame import FrameDecoder, encode_frame
from wakelog.testing import EmbeddedBroker

pytestmark = [pytest.mark.process, pytest.mark.slow]

FUNCTIONS_MAX, FILES_MAX = (20, 16) if CHOICE.is_compiled else (65, 30)

WARM_COUNT = 10
SENDS_COUNT = 30
PAUSE_SECONDS = 0.01
"""After a response, so that what the broker does behind it is not counted with the next send."""

ROOT = f"{Path(wakelog.__file__).parent}/"
OF_THE_FIXTURE = f"{ROOT}testing/"


class Calls:
    """The functions of wakelog that the broker's thread calls until it has written a response."""

    def __init__(self) -> None:
        self.found = set[tuple[str, str]]()
        self.is_recording = False

    def record(self) -> None:
        self.found, self.is_recording = set(), True

    def note(self, frame: FrameType, event: str, _argument: Any) -> None:
        found, code = self.found, frame.f_code
        if event == "return" and code is Connection.flush.__code__:
            self.is_recording = False  # what comes behind it may run before the client does
        if not self.is_recording or event != "call" or not code.co_filename.startswith(ROOT):
            return
        if not code.co_filename.startswith(OF_THE_FIXTURE):
            found.add((code.co_filename.removeprefix(ROOT), code.co_qualname))


def _respond(connection: socket.socket, opaque: int) -> int:
    """Send a message and return the code of the response."""
    fields = send_fields("T", e="0")
    request = make_request(RequestCode.SEND_MESSAGE_V2, fields, b"x" * 100, opaque=opaque)
    connection.sendall(encode_frame(request))
    decoder = FrameDecoder()
    while not (responses := decoder.feed(connection.recv(65_536))):
        pass
    return responses[0].code


def test_a_plain_send_passes_few_functions_in_few_files() -> None:
    calls, common = Calls(), set[tuple[str, str]]()
    threading.setprofile(calls.note)  # for the broker's thread, which begins below
    try:
        with EmbeddedBroker() as broker:
            host, _, port = broker.address.rpartition(":")
            with socket.create_connection((host, int(port))) as connection:
                for number in range(WARM_COUNT + SENDS_COUNT):
                    time.sleep(PAUSE_SECONDS)
                    calls.record()
                    assert _respond(connection, number) == ResponseCode.SUCCESS
                    found = calls.found
                    if number == WARM_COUNT:
                        common = found
                    elif number > WARM_COUNT:
                        common &= found
    finally:
        threading.setprofile(None)
    assert sys.getprofile() is None
    files = {file for file, _ in common}
    shown = "\n".join(f"{file}: {name}" for file, name in sorted(common))
    written = ("storage/log/commit_log.py", "CommitLog.write_pending")
    assert written in common, "the hook has seen the broker"
    assert len(common) <= FUNCTIONS_MAX, shown
    assert len(files) <= FILES_MAX, shown
