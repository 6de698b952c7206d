"""The transactions of a long life, and mistakes that the simulation must find in them."""

from collections import Counter
from random import Random

import pytest

from tests.simulation.campaign import run_transactions
from tests.simulation.disk import SimulatedDisk
from tests.simulation.machine import BEGIN_MS, simulated_config
from tests.simulation.oracle import Violation
from tests.simulation.transactions import TOPIC, TransactionMachine
from tests.simulation.trial import Tally
from tests.simulation.workloads import apply
from wakelog.broker.half_copies import EarlierCopies
from wakelog.protocol.names import TRANS_HALF_TOPIC

pytestmark = [pytest.mark.simulation, pytest.mark.slow]

TRANSACTIONS_COUNT = 600
SEED = 7
EPISODE_COUNT = 40
EPISODES = (
    ("check", "answer"),
    ("check", "commit", "answer"),
    ("check", "kill"),
    ("check", "commit", "kill"),
    ("check", "answer", "kill"),
    ("check", "answer", "commit", "kill"),
    ("kill", "check", "kill", "check", "answer"),
)
"""One after so many transactions."""

SEGMENT_BYTES = 256 << 10
QUEUE_FILE_BYTES = 20_000


def live(count: int, chance: Random) -> TransactionMachine:
    """Begin so many transactions; between them the check goes on and the Broker dies.

    Of three transactions two are ended at once, and one waits to be asked about. Each question is
    answered before the next round, unless the Broker is dead by then.
    """
    config = simulated_config(
        commit_log_file_bytes=SEGMENT_BYTES,
        consume_queue_file_bytes=QUEUE_FILE_BYTES,
        message_index_enable=False,
    )
    machine = TransactionMachine(SimulatedDisk(records=False), config, BEGIN_MS)
    for number in range(count):
        steps = ["half", *(["end"] if number % 3 else [])]
        if number % EPISODE_COUNT == 0:
            steps += chance.choice(EPISODES)
        for step in steps:
            if step == "kill":
                machine.abandon()
                machine = TransactionMachine(machine.disk, config, machine.now_ms)
            else:
                apply(machine, step, config)
    return machine


def test_each_of_600_transactions_has_its_outcome() -> None:
    machine = live(TRANSACTIONS_COUNT, Random(SEED))
    machine.settle()
    machine.abandon()
    sent = machine.disk.view.sent.values()
    topics = Counter(one.topic for one in sent)
    keys = {one.keys for one in sent if one.topic == TRANS_HALF_TOPIC}
    assert len(keys) == TRANSACTIONS_COUNT and topics[TOPIC] > TRANSACTIONS_COUNT * 0.4
    assert topics[TRANS_HALF_TOPIC] > TRANSACTIONS_COUNT * 1.2  # with what was put back


@pytest.mark.long
def test_positions_that_are_saved_too_early_lose_a_transaction() -> None:
    class Hasty(TransactionMachine):
        """Saves the positions before the disk has what they count."""

        def wait_durable(self) -> bool:
            return True

    with pytest.raises(Violation, match="is in its topic 0 times"):
        run_transactions(("put", "half", "check", "commit"), Tally(), machine_type=Hasty)


@pytest.mark.long
def test_copies_that_are_not_found_double_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EarlierCopies, "has_copy", lambda *_: False)
    with pytest.raises(Violation, match="is in its topic 2 times"):
        run_transactions(("put", "half", "check", "answer"), Tally())
