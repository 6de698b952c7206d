"""The leftover check finds what it is there for, and nothing that belongs to somebody else."""

import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.leftovers import (
    SESSION_VARIABLE,
    Leftovers,
    Watcher,
    in_use,
    listening_sockets,
    session_processes,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="attribution needs /proc")


@pytest.fixture
def waiting_process() -> Iterator[tuple[str, int]]:
    """Start a process that waits for its input to end, under a session word of its own."""
    word = uuid.uuid4().hex
    with subprocess.Popen(
        [sys.executable, "-c", "input()"],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, SESSION_VARIABLE: word},
    ) as process:
        yield word, process.pid
        process.kill()


def test_a_process_is_found_by_the_word_it_inherited(
    waiting_process: tuple[str, int], tmp_path: Path
) -> None:
    word, process_id = waiting_process
    assert process_id in session_processes(word)
    assert session_processes(uuid.uuid4().hex) == {}
    [line] = Leftovers(word, tmp_path).wait_none(grace_ms=0)
    assert line.startswith(f"process {process_id}: ")


@pytest.mark.parametrize(
    ("family", "words"), [(socket.AF_INET, "tcp port"), (socket.AF_UNIX, "unix socket")]
)
def test_a_listening_socket_is_found_and_a_silent_one_is_not(
    family: socket.AddressFamily, words: str, short_path: Path
) -> None:
    before = listening_sockets()
    with socket.socket(family, socket.SOCK_STREAM) as server:
        server.bind(str(short_path / "s") if family == socket.AF_UNIX else ("127.0.0.1", 0))
        assert listening_sockets() == before
        server.listen()
        [found] = listening_sockets() - before
        assert found.startswith(words)
    assert listening_sockets() == before


@pytest.mark.parametrize("name", ["wakelog", "psm"])
def test_a_file_in_shared_memory_is_found_when_no_process_has_it_open(
    tmp_path: Path, name: str
) -> None:
    word = uuid.uuid4().hex
    leftovers = Leftovers(word, tmp_path)
    path = Path(f"/dev/shm/{name}-test-{word}")
    try:
        with path.open("wb"):
            assert in_use([str(path)]) == {str(path)}
            assert f"file: {path}" not in leftovers.find()
        assert f"file: {path}" in leftovers.find()
    finally:
        path.unlink()


def test_a_folder_with_a_bound_socket_is_in_use(short_path: Path) -> None:
    assert in_use([str(short_path)]) == set()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind(str(short_path / "notification"))
        assert in_use([str(short_path)]) == {str(short_path)}


HOLDS = "import sys; held = open(sys.argv[1], 'wb'); print(flush=True); input()"


@contextmanager
def holder(path: Path, session: str) -> Iterator[None]:
    """Run a process of a session that makes a file, holds it, and is killed."""
    try:
        with subprocess.Popen(
            [sys.executable, "-c", HOLDS, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, SESSION_VARIABLE: session},
        ) as process:
            assert process.stdout is not None and process.stdout.readline()
            yield
            process.kill()
    finally:
        path.unlink(missing_ok=True)


@pytest.mark.process
@pytest.mark.parametrize("is_own", [True, False])
def test_a_file_of_another_process_is_not_ours(tmp_path: Path, is_own: bool) -> None:
    """Whether or not that is of a session: parallel runs on a machine do not see each other."""
    own, other = uuid.uuid4().hex, uuid.uuid4().hex
    leftovers, watcher = Leftovers(own, tmp_path), Watcher(own, tmp_path)
    path = Path(f"/dev/shm/wakelog-local-{other}")
    with closing(watcher), holder(path, own if is_own else other):
        watcher.stop()
        assert (str(path) in watcher.noted()) == is_own
        leftovers.note_files(watcher.noted())
        assert f"file: {path}" not in leftovers.find(), "it is in use"
        [process_id] = session_processes(own if is_own else other)
        os.kill(process_id, signal.SIGKILL)
        while (Path("/proc") / str(process_id) / "maps").read_bytes():
            time.sleep(0.001)
        assert (f"file: {path}" in leftovers.find()) == is_own


@pytest.mark.process
def test_the_watcher_sees_what_comes_and_ends_with_the_session(tmp_path: Path) -> None:
    word = uuid.uuid4().hex
    path = Path(f"/dev/shm/wakelog-test-{word}")
    with closing(Watcher(word, tmp_path)) as watcher, holder(path, word):
        limit = time.monotonic() + 10
        while str(path) not in watcher.noted():
            assert time.monotonic() < limit
            time.sleep(0.01)
    assert watcher._process.returncode == 0 and not list(tmp_path.iterdir())


def test_a_temporary_file_is_found(tmp_path: Path) -> None:
    leftovers = Leftovers(uuid.uuid4().hex, tmp_path)
    assert leftovers.find() == []
    (tmp_path / "forgotten").touch()
    assert leftovers.find() == [f"temporary file: {tmp_path / 'forgotten'}"]
