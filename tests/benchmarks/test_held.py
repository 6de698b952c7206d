"""The row of held pulls: topics that a broker reads, a queue for each pull, and turns."""

from itertools import islice
from pathlib import Path

from benchmarks.held import (
    BLOCK_COUNT,
    PULLS_COUNT,
    QUEUES_COUNT,
    TOPICS_COUNT,
    add_topics,
    pull_requests,
    send_in_turns,
)
from benchmarks.paced import Connection, Template
from tests.broker.test_topics import Table
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.frame import FrameDecoder


def test_a_broker_reads_the_topics(tmp_path: Path) -> None:
    add_topics(tmp_path)
    table = Table()
    known = len(table.topics.wrapper().topic_config_table)
    table.topics.load((tmp_path / "config" / "topics.json").read_text())
    assert len(table.topics.wrapper().topic_config_table) == known + TOPICS_COUNT
    last = table.topics.get(f"topic-{TOPICS_COUNT - 1}")
    assert last is not None and last.write_queue_nums == QUEUES_COUNT


def test_each_pull_waits_for_a_queue_of_its_own() -> None:
    frames = b"".join(pull.frame(0) for pull in islice(pull_requests(), PULLS_COUNT))
    fields = [request.ext_fields for request in FrameDecoder().feed(frames)]
    assert len({(each["topic"], each["queueId"]) for each in fields}) == PULLS_COUNT
    assert {each["queueOffset"] for each in fields} == {"1"}


class Sender(Connection):
    """A connection that answers itself and notes in a list of all whose turn it was."""

    def __init__(self, name: str, turns: list[str]) -> None:
        self._name, self._turns = name, turns
        self._waiting: list[RemotingCommand] = []

    def send(self, request: Template, number: int) -> None:
        self._turns.append(self._name)
        [sent] = FrameDecoder().feed(request.frame(number))
        self._waiting.append(answer(sent, 0))

    def answers(self, wait_seconds: float) -> list[RemotingCommand]:
        found, self._waiting = self._waiting, []
        return found


def test_both_brokers_get_as_many_sends_block_by_block() -> None:
    turns: list[str] = []
    took_ms = send_in_turns([Sender("held", turns), Sender("empty", turns)], 2 * BLOCK_COUNT)
    assert [len(each) for each in took_ms] == [2 * BLOCK_COUNT] * 2
    assert turns == (["held"] * BLOCK_COUNT + ["empty"] * BLOCK_COUNT) * 2
