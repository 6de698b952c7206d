"""etcd beyond the contract: three members of which some die, and what is no etcd."""

import signal
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.actors.registers.etcd_members import EtcdMembers
from tests.actors.registers.test_json_calls import answer_of, member
from tests.actors.registers.writers import Writer, check_words
from wakelog.actors.registers.register import (
    NO_VERSION,
    AnswerLost,
    RegisterError,
    RegisterRefused,
    RegisterUnreachable,
    open_register,
)

KEY = "wakelog/c/b"
HEADER = {"cluster_id": "1", "revision": "5"}

KILLS_COUNT = 6
WORDS_COUNT = 400


@pytest.mark.etcd
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_members_that_are_killed_and_stopped_lose_nothing_that_was_answered(
    tmp_path: Path,
) -> None:
    with EtcdMembers(tmp_path, 3) as members:
        places = [f"127.0.0.1:{port}" for port in members.client_ports]
        address = f"etcd://{','.join(places)}"
        writers = [
            Writer(open_register(address), KEY, str(n), words_count=WORDS_COUNT) for n in range(3)
        ]
        for writer in writers:
            writer.start()
        for kill in range(KILLS_COUNT):
            index = kill % 3
            if kill % 2:
                members.signal(index, signal.SIGSTOP)
                wait_words(writers)
                members.signal(index, signal.SIGCONT)
            else:
                members.kill(index)
                wait_words(writers)
                members.start(index)
            members.wait_healthy(index)
        for writer in writers:
            writer.join()
        check_words(open_register(address), KEY, writers)
        assert sum(len(writer.answered) for writer in writers) > WORDS_COUNT
        members.kill(0)
        members.kill(1)
        with pytest.raises(RegisterUnreachable):  # a lone member answers no linearizable read
            open_register(address).read(KEY)
        with pytest.raises((AnswerLost, RegisterUnreachable)):
            open_register(address).replace(KEY, b"[]", NO_VERSION)


def wait_words(writers: list[Writer]) -> None:
    """Wait until some more words were answered, or all writers are done."""
    wanted = sum(len(writer.answered) for writer in writers) + 10
    end = time.monotonic() + 60
    while sum(len(writer.answered) for writer in writers) < wanted:
        if not any(writer.is_alive() for writer in writers):
            return
        assert time.monotonic() < end, "nothing is answered although two members run"
        time.sleep(0.05)


def read_from(answer: bytes) -> RegisterError:
    with member(answer) as (address, _), pytest.raises(RegisterError) as error:
        open_register(f"etcd://{address}").read(KEY)
    return error.value


@pytest.mark.process
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"header": {}},
        {"header": HEADER, "kvs": [{}]},
        {"header": HEADER, "kvs": 3},
        {"header": HEADER, "kvs": [{"mod_revision": "1", "value": "%"}]},
    ],
)
def test_what_is_no_etcd_is_refused(body: object) -> None:
    error = read_from(answer_of(body))
    assert isinstance(error, RegisterRefused) and "as etcd does" in error.cause


@pytest.mark.process
def test_a_call_that_etcd_refuses() -> None:
    error = read_from(answer_of({"error": "etcdserver: user name is empty"}, "400 Bad Request"))
    assert isinstance(error, RegisterRefused) and "user name is empty" in error.cause


@pytest.mark.process
def test_a_proposal_that_timed_out_may_be_carried_out_yet() -> None:
    timed_out = answer_of({"error": "etcdserver: request timed out"}, "503 Service Unavailable")
    with member(timed_out) as (address, _), pytest.raises(AnswerLost, match="timed out"):
        open_register(f"etcd://{address}").replace(KEY, b"", NO_VERSION)


@pytest.mark.process
def test_members_of_two_clusters_are_refused() -> None:
    with ExitStack() as stack:
        answers = [answer_of({"header": {**HEADER, "cluster_id": n}}) for n in ("1", "2")]
        first, _ = stack.enter_context(member(answers[0]))
        second, _ = stack.enter_context(member(answers[1]))
        register = open_register(f"etcd://{first},{second}")
        register.read(KEY)
        register._members._ask_last(first)  # type: ignore[attr-defined]
        with pytest.raises(RegisterRefused, match="another etcd cluster"):
            register.read(KEY)
