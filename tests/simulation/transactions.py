"""A simulated broker with transactions: half messages, their ends, the check, and its positions.

Requests go through the broker's core, the check through its service, and the positions of the check
are saved as the Broker saves them. Of the half messages every other one is to be committed, which
its key says, so that whoever is asked after a crash knows. Every third one has an immunity time: it
is put back in the meantime, and ended under its first offset.

    I11 every half message that is in the log ends as its key says: once in its topic, or never
"""

from collections import Counter
from contextlib import ExitStack
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Final, cast

import msgspec

from tests.actors.services.fakes import attach_request
from tests.broker.harness import FakeChannel, Waiting, begun, send_fields, settings
from tests.simulation.client import Sent
from tests.simulation.disk import SimulatedDisk
from tests.simulation.machine import BEGIN_MS, OFFSETS, Machine, java_hash
from tests.simulation.oracle import Violation
from wakelog.actors.services.service import Session
from wakelog.actors.services.transaction_check import TransactionCheckService
from wakelog.actors.transport.service_plan import ServicePlan
from wakelog.broker.broker import Broker
from wakelog.broker.decision import (
    AwaitFlush,
    Push,
)
from wakelog.broker.effects import InPool
from wakelog.broker.names import TRANS_GROUP
from wakelog.protocol.bodies import HeartbeatData, ProducerData, encode_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, make_request
from wakelog.protocol.names import TRANS_HALF_TOPIC
from wakelog.protocol.properties import (
    CHECK_IMMUNITY_TIME_IN_SECONDS,
    KEYS,
    TAGS,
    UNIQ_KEY,
    decode_properties,
)
from wakelog.protocol.record import decode_record
from wakelog.protocol.sys_flag import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from wakelog.storage.config import StoreConfig

TOPIC: Final = "Transactions"
GROUP: Final = "pg"
SETTLE_MS: Final = 2_000
SETTLE_ROUNDS_MAX: Final = 12
IMMUNITY_SECONDS: Final = "9"  # several steps
TABLE: Final = "consumerOffset"
CHANNEL: Final = FakeChannel(1)
_SETTINGS: Final = settings(transactionTimeOut="1000", transactionCheckMax="1000")
_MESSAGE_MAGIC: Final = (0xDAA320A7).to_bytes(4)


def is_committed(key: str) -> bool:
    """Return whether a transaction is to be committed; its key is the time it began."""
    return int(key) // SETTLE_MS % 2 == 0


class TransactionMachine(Machine):
    """A broker that was started on a disk, with a producer of transactions."""

    def __init__(self, disk: SimulatedDisk, config: StoreConfig, now_ms: int = BEGIN_MS) -> None:
        """Start, and load the positions of the check. Raises: StoreError."""
        super().__init__(disk, config, now_ms)
        self.broker = Broker(
            msgspec.structs.replace(_SETTINGS, store=config),
            self.store,
            now_ms,
            random=Random(1),
            readable=lambda: self.readable,
        )
        self._files.load(OFFSETS, partial(self.broker.load, TABLE))
        self._open: list[dict[str, str]] = []
        self._asked: list[dict[str, str]] = []
        self._has_begun = False
        plan = cast(ServicePlan, SimpleNamespace(settings=SimpleNamespace(store=config)))
        session = Session(
            plan=plan,
            name="transaction_check",
            fs=self.fs,
            request=attach_request(),
            watermarks=None,
            releases=ExitStack(),
        )
        self._check = TransactionCheckService(session)
        self.further_steps = {
            "half": self.send_half,
            "end": self.end_first,
            "check": self.check,
            "answer": self.answer,
        }

    def send_half(self) -> None:
        """Send a half message; its producer has the response once that is flushed."""
        key = str(self.now_ms)
        texts = {"TRAN_MSG": "true", "PGROUP": GROUP, UNIQ_KEY: key}
        if self.now_ms // SETTLE_MS % 3 == 0:
            texts[CHECK_IMMUNITY_TIME_IN_SECONDS] = IMMUNITY_SECONDS
        properties = "\x02".join(f"{name}\x01{text}" for name, text in texts.items())
        fields = send_fields(TOPIC, i=properties, f="4", g=key)
        response = self._ask(RequestCode.SEND_MESSAGE_V2, fields, key.encode())
        if response.code == ResponseCode.SUCCESS and self._write():
            sent = response.ext_fields
            self._open.append(_end(key, sent["queueOffset"], int(sent["msgId"][16:], 16)))

    def end_first(self) -> None:
        """End the oldest transaction that this producer has begun and not ended."""
        if self._open and (self.flush() or not self.config.synchronous_flush):
            self._end(self._open.pop(0))

    def check(self) -> None:
        """Do one round of the check."""
        self._begin()
        started_ms, has_more = self.now_ms, True
        while has_more:
            request = self.broker.begin_check(started_ms, self.now_ms)
            self.flush()
            self.dispatch_step()
            batch = self._check.check(
                msgspec.to_builtins(request), self.store.min_physical_offset, self.store.dispatched
            )
            records = self.broker.read_due(batch.decisions)
            has_more = self.broker.carry_out_check(batch, records, self.now_ms)
            if not self._write():
                return
            self._take_questions()

    def answer(self) -> None:
        """Answer what the broker has asked; nothing that was asked about is ended again."""
        asked, self._asked = self._asked, []
        keys = {fields["msgId"] for fields in asked}
        self._open = [fields for fields in self._open if fields["msgId"] not in keys]
        for fields in asked:
            self._end(fields)

    def commit_offsets(self) -> None:
        """Save the positions of the check, once what they count is durable. Raises: StoreError."""
        self._begin()
        text = self.broker.tables[TABLE].snapshot()()
        if self.wait_durable():
            self._files.save(OFFSETS, text)

    def wait_durable(self) -> bool:
        """Make durable what was put; False if that is impossible."""
        return self.flush()

    def load_offsets(self) -> None:
        """Return nothing: there are no offsets of consumers."""

    def settle(self) -> None:
        """Let the check end what is open, and look at what became of all. Raises: Violation."""
        for _ in range(SETTLE_ROUNDS_MAX):
            self.now_ms += SETTLE_MS
            self.check()
            is_quiet = not self._asked and self._passed() == self._half_end()
            self.answer()
            self.flush()
            self.dispatch_step()
            if is_quiet:
                break
        else:
            raise Violation("I11", "the check does not come to an end")
        sent = self.disk.view.sent.values()
        delivered = Counter(one.keys[-1] for one in sent if one.topic == TOPIC)
        for key in {one.keys[-1] for one in sent if one.topic == TRANS_HALF_TOPIC}:
            if delivered[key] != is_committed(key):
                raise Violation("I11", f"{key} is in its topic {delivered[key]} times")

    def _begin(self) -> None:
        """Do as the Broker before it accepts: everything is dispatched, and then it ticks."""
        if not self._has_begun:
            self._has_begun = True
            self.dispatch_step()
            self.broker.tick(self.now_ms)
            body = encode_body(HeartbeatData("p", [ProducerData(GROUP)], []))
            self._ask(RequestCode.HEART_BEAT, {}, body)
            self._write()

    def _ask(self, code: int, fields: dict[str, str], body: bytes = b"") -> RemotingCommand:
        self._begin()
        request = make_request(code, fields, body, opaque=1)
        outcome = begun(self.broker.process(request, CHANNEL, self.now_ms), self.now_ms)
        while isinstance(outcome, Waiting):
            result = outcome.effect.work() if isinstance(outcome.effect, InPool) else ""
            outcome = begun(outcome.resume(result), self.now_ms)
        if isinstance(outcome, AwaitFlush):
            outcome = outcome.response
        assert isinstance(outcome, RemotingCommand)
        return outcome

    def _end(self, fields: dict[str, str]) -> None:
        self._ask(RequestCode.END_TRANSACTION, fields)
        self._write()

    def _take_questions(self) -> None:
        for instruction in self.broker.take_instructions():
            if isinstance(instruction, Push):
                asked = instruction.command.ext_fields
                place = asked["tranStateTableOffset"], int(asked["commitLogOffset"])
                self._asked.append(_end(asked["msgId"], *place))

    def _passed(self) -> int:
        return max(0, self.broker.state.offsets.query(TRANS_GROUP, TRANS_HALF_TOPIC, 0))

    def _half_end(self) -> int:
        return self.store.max_queue_offset(TRANS_HALF_TOPIC, 0)

    def _write(self) -> bool:
        log = self.store.log
        for data in (*(buffer for *_, buffers in log._rolled for buffer in buffers), *log._pending):
            if bytes(data[4:8]) == _MESSAGE_MAGIC:
                self._note_placed(bytes(data))
        return super()._write()

    def _note_placed(self, data: bytes) -> None:
        record = decode_record(data)
        properties = decode_properties(record.properties_text)
        keys = properties.get(KEYS, "").split()
        keys += [properties[UNIQ_KEY]] if UNIQ_KEY in properties else []
        self._stored_ms = record.store_timestamp_ms
        self.disk.mark(
            Sent(
                record.physical_offset,
                data,
                record.topic,
                record.queue_id,
                record.queue_offset,
                tuple(keys),
                java_hash(properties.get(TAGS, "")),
                record.store_timestamp_ms,
            )
        )


def _end(key: str, queue_offset: str, physical_offset: int) -> dict[str, str]:
    how = TRANSACTION_COMMIT if is_committed(key) else TRANSACTION_ROLLBACK
    return {
        "producerGroup": GROUP,
        "tranStateTableOffset": queue_offset,
        "commitLogOffset": str(physical_offset),
        "commitOrRollback": str(how),
        "fromTransactionCheck": "false",
        "msgId": key,
        "transactionId": key,
    }
