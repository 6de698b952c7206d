"""What the raylet runs for each worker; the fork itself is tested with the template."""

import os
import socket
import sys
import threading
from pathlib import Path

import pytest

from wakelog.actors.ray.fast_start.worker_start import FORKED, ask_template
from wakelog.actors.ray.fast_start.worker_template import WorkerRequest


@pytest.mark.parametrize(("answer", "is_forked"), [(FORKED, True), (b"", False), (b"?", False)])
def test_only_the_answer_forked_counts(short_path: Path, answer: bytes, is_forked: bool) -> None:
    path = str(short_path / "socket")
    asked: list[bytes] = []

    def template() -> None:
        connection, _ = listener.accept()
        with connection:
            data, descriptors, _, _ = socket.recv_fds(connection, 1 << 16, 3)
            while part := connection.recv(1 << 16):
                data += part
            for descriptor in descriptors:
                os.close(descriptor)
            asked.append(data)
            connection.sendall(answer)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        thread = threading.Thread(target=template)
        thread.start()
        assert ask_template(path) is is_forked
        thread.join()
    request = WorkerRequest.read(asked[0])
    assert request.arguments == sys.argv and request.executable == sys.executable
    assert request.environment == dict(os.environ) and request.directory == os.getcwd()
    assert request.leads_group is (os.getpgrp() == os.getpid())


def test_without_a_listener_there_is_no_template(tmp_path: Path) -> None:
    assert not ask_template(str(tmp_path / "absent"))
