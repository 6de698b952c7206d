"""Workers of Celery: results, chains, chords, countdowns and remote control."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import chain, chord

from tests.celery.workers import QUIET, Worker, running, runs_of, tasks_at
from tests.tasks.brokers import broker, wait_for
from wakelog.testing import EmbeddedBroker

__all__ = ["broker"]
pytestmark = [pytest.mark.process, pytest.mark.slow]

SECONDS = 20.0
LATE_SECONDS_MAX = 3.0
IN_HAND_MAX = 8
"""Two processes of a worker, which fetch four tasks for each."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("celery")


@pytest.fixture(scope="module")
def tasks(broker: EmbeddedBroker, folder: Path) -> Iterator[Any]:
    with tasks_at(broker.name_server, folder) as module:
        yield module


@pytest.fixture(scope="module")
def worker(broker: EmbeddedBroker, folder: Path, tasks: Any) -> Iterator[Worker]:
    started = Worker(0, broker.name_server, folder)
    with running(started):
        yield started


def test_results_chains_and_chords(worker: Worker, tasks: Any) -> None:
    assert tasks.add.delay(1, 2).get(timeout=SECONDS) == 3
    assert chain(tasks.add.s(1, 2), tasks.add.s(10))().get(timeout=SECONDS) == 13
    sums = [tasks.add.s(number, number) for number in range(5)]
    assert chord(sums, tasks.total.s())().get(timeout=SECONDS) == 20


@pytest.mark.parametrize("seconds", [0.3, 1.4])
def test_a_countdown_is_kept(worker: Worker, tasks: Any, seconds: float) -> None:
    began = time.time()
    moment = tasks.moment.apply_async(countdown=seconds).get(timeout=SECONDS)
    assert began + seconds <= moment < began + seconds + LATE_SECONDS_MAX


def test_a_worker_answers_to_remote_control(worker: Worker, tasks: Any) -> None:
    inspect = tasks.app.control.inspect(["worker-0@host"], timeout=SECONDS)
    assert inspect.ping() == {"worker-0@host": {"ok": "pong"}}
    assert inspect.registered()["worker-0@host"] == sorted(
        f"tests.celery.app.{name}" for name in ("add", "moment", "note", "total")
    )


def test_what_is_no_task_is_a_dead_letter_with_its_place(
    worker: Worker, tasks: Any, broker: EmbeddedBroker
) -> None:
    from wakelog.client.sync import Producer

    with Producer(broker.name_server) as producer:
        receipt = producer.send("kombu-celery", b"no task at all")
    tasks.app.send_task("nobody.knows", [1])
    dead = broker.wait_for_messages("%DLQ%kombu-celery", count=2)
    assert b"no task at all" in {message.body for message in dead}
    said = f"at offset {receipt.queue_offset} of queue {receipt.queue_id} of topic kombu-celery"
    wait_for(lambda: said in worker.log.read_text())
    assert tasks.add.delay(2, 2).get(timeout=SECONDS) == 4


def test_a_worker_that_ends_in_order_leaves_nothing_undone(
    broker: EmbeddedBroker, folder: Path, tasks: Any, worker: Worker
) -> None:
    other = Worker(1, broker.name_server, folder, *QUIET)
    with running(other):
        for number in range(60):
            tasks.note.delay(number)
        other.stop()
    wait_for(lambda: len(runs_of(folder)) == 60)
    repeated = runs_of(folder).total() - 60
    assert repeated <= IN_HAND_MAX, "only what was in hand when its queue went to the other worker"
