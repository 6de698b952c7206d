"""One contract for every register: what brokers rely on, whatever holds the value.

Each engine is wrapped as an `Engine`: it can be restarted, cut off, and made to lose an answer.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest

from tests.actors.registers.etcd_members import EtcdMembers
from tests.actors.registers.fake_kubernetes import NAMESPACE, TOKEN, FakeKubernetes
from tests.actors.registers.losing_proxy import LosingProxy, Mode
from tests.actors.registers.writers import Writer, check_words
from wakelog.actors.registers import locked_file
from wakelog.actors.registers.register import (
    NO_VERSION,
    NOTHING,
    AnswerLost,
    Register,
    RegisterRefused,
    RegisterUnreachable,
    StaleVersion,
    open_register,
)

KEY = "wakelog/DefaultCluster/broker-a"
WATCH_SECONDS = 30.0
"""More than a notification takes on a busy machine."""

Fault = Callable[[], AbstractContextManager[None]]


class Engine(NamedTuple):
    """A register, and what can happen to it.

    lose_answer: within, a replace is carried out and its answer does not arrive.
    cut: within, nothing arrives.
    """

    address: str
    restart: Callable[[], None]
    lose_answer: Fault
    cut: Fault

    def open(self) -> Register:
        return open_register(self.address)


@contextmanager
def file_engine(folder: Path) -> Iterator[Engine]:
    place = folder / "register"

    @contextmanager
    def lose_answer() -> Iterator[None]:
        failing = OSError(5, "Input/output error")
        with mock.patch.object(locked_file, "_sync_folder", side_effect=failing):
            yield

    @contextmanager
    def cut() -> Iterator[None]:
        aside = place.rename(folder / "aside")
        place.write_bytes(b"")  # a file where the folder should be
        yield
        place.unlink()
        aside.rename(place)

    yield Engine(f"file://{place}", lambda: None, lose_answer, cut)


def through_proxy(address: str, proxy: LosingProxy, restart: Callable[[], None]) -> Engine:
    @contextmanager
    def set_to(mode: Mode) -> Iterator[None]:
        proxy.mode = mode
        yield
        proxy.mode = Mode.PASS

    return Engine(address, restart, lambda: set_to(Mode.LOSE_ANSWER), lambda: set_to(Mode.REFUSE))


@contextmanager
def kubernetes_engine(folder: Path) -> Iterator[Engine]:
    token = folder / "token"
    token.write_text(TOKEN + "\n")
    with FakeKubernetes() as fake, LosingProxy(fake.port) as proxy:
        address = f"kubernetes://{NAMESPACE}/orders?server=http://127.0.0.1:{proxy.port}"
        yield through_proxy(f"{address}&token={token}", proxy, fake.restart)


@contextmanager
def etcd_engine(folder: Path) -> Iterator[Engine]:
    with EtcdMembers(folder, 1) as members, LosingProxy(members.client_ports[0]) as proxy:

        def restart() -> None:
            members.kill(0)
            members.start(0)
            members.wait_healthy(0)

        yield through_proxy(f"etcd://127.0.0.1:{proxy.port}", proxy, restart)


ENGINES = {"file": file_engine, "kubernetes": kubernetes_engine, "etcd": etcd_engine}
KINDS = {"kubernetes": [pytest.mark.process], "etcd": [pytest.mark.etcd, pytest.mark.slow]}


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=KINDS.get(name, [])) for name in ENGINES],
)
def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    with ENGINES[request.param](tmp_path_factory.mktemp("engine")) as made:
        yield made


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    """A key for each test, because the engine is shared."""
    return f"{KEY}/{request.function.__name__}"


@pytest.fixture
def register(engine: Engine) -> Iterator[Register]:
    made = engine.open()
    yield made
    made.close()


def test_a_key_without_a_value(register: Register, key: str) -> None:
    assert register.read(key) == NOTHING


def test_a_value_is_read_as_it_was_written_by_every_reader(
    engine: Engine, register: Register, key: str
) -> None:
    value = '{"in_sync": [1, 2], "name": "größer \\u0000 \\n"}'.encode()
    version = register.replace(key, value, NO_VERSION)
    assert version != NO_VERSION
    for reader in (register, engine.open()):
        assert reader.read(key) == (value, version)
    assert register.read(f"{key}-of-another-group") == NOTHING


def test_each_replace_has_another_version(register: Register, key: str) -> None:
    versions = [NO_VERSION]
    for n in range(5):
        versions.append(register.replace(key, b"same" if n % 2 else b"other", versions[-1]))
    assert len(set(versions)) == len(versions)


def test_a_stale_version_changes_nothing(register: Register, key: str) -> None:
    first = register.replace(key, b"1", NO_VERSION)
    second = register.replace(key, b"2", first)
    for stale in (first, NO_VERSION):
        with pytest.raises(StaleVersion):
            register.replace(key, b"3", stale)
    assert register.read(key) == (b"2", second)


def test_a_version_of_a_value_that_is_not_there_is_stale(register: Register, key: str) -> None:
    version = register.replace(f"{key}/other", b"1", NO_VERSION)
    with pytest.raises(StaleVersion):
        register.replace(key, b"1", version)
    assert register.read(key) == NOTHING


def test_a_lost_answer_leaves_the_caller_unsure_until_it_reads(
    engine: Engine, register: Register, key: str
) -> None:
    first = register.replace(key, b"1", NO_VERSION)
    with engine.lose_answer(), pytest.raises(AnswerLost):
        register.replace(key, b"2", first)
    held = register.read(key)
    assert held.value == b"2" and held.version != first
    with pytest.raises(StaleVersion):  # trying again with what was known before is refused
        register.replace(key, b"2 again", first)
    register.replace(key, b"3", held.version)


def test_a_register_that_is_cut_off_says_so_and_changes_nothing(
    engine: Engine, register: Register, key: str
) -> None:
    first = register.replace(key, b"1", NO_VERSION)
    with engine.cut():
        with pytest.raises(RegisterUnreachable):
            register.read(key)
        with pytest.raises((RegisterUnreachable, AnswerLost)):
            register.replace(key, b"2", first)
    assert register.read(key) == (b"1", first)


def test_a_watch_returns_when_another_process_replaces(
    engine: Engine, register: Register, key: str
) -> None:
    """Both for a key that has no value yet and for one that has."""
    version = NO_VERSION
    for value in (b"1", b"2"):
        watcher = engine.open()
        with ThreadPoolExecutor() as pool:
            began = time.monotonic()
            watched = pool.submit(watcher.watch, key, version, WATCH_SECONDS)
            version = register.replace(key, value, version)
            assert watched.result() == (value, version)
            assert time.monotonic() - began < WATCH_SECONDS
        watcher.close()


def test_a_watch_of_an_old_version_returns_at_once(register: Register, key: str) -> None:
    version = register.replace(key, b"1", NO_VERSION)
    assert register.watch(key, NO_VERSION, WATCH_SECONDS) == (b"1", version)


def test_a_watch_ends_in_time(register: Register, key: str) -> None:
    version = register.replace(key, b"1", NO_VERSION)
    began = time.monotonic()
    assert register.watch(key, version, 0.2) == (b"1", version)
    assert 0.2 <= time.monotonic() - began < WATCH_SECONDS


def test_a_value_outlives_a_restart(engine: Engine, register: Register, key: str) -> None:
    version = register.replace(key, b"1", NO_VERSION)
    engine.restart()
    assert register.read(key) == (b"1", version)
    assert engine.open().read(key) == (b"1", version)
    register.replace(key, b"2", version)


@pytest.mark.parametrize("bad", ["", "/", "a//b", "a b", "ä", "x" * 256])
def test_a_key_that_no_register_takes_is_refused(register: Register, bad: str) -> None:
    for call in (
        lambda: register.read(bad),
        lambda: register.replace(bad, b"", NO_VERSION),
        lambda: register.watch(bad, NO_VERSION, 0.1),
    ):
        with pytest.raises(RegisterRefused, match="no key"):
            call()


def test_writers_at_once_lose_nothing_that_was_answered(engine: Engine, key: str) -> None:
    """Each appends its words by compare-and-set; every answered word is there once."""
    writers = [Writer(engine.open(), key, str(n), words_count=8) for n in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    check_words(engine.open(), key, writers)
