"""The trace of a consumer: when each message was given to the user, and what became of it.

    fields of a note, separated as those of trace.py
    SubBefore  time, region, group, request id, message id, times it was consumed before, keys
    SubAfter   request id, message id, ms until then, success, keys, outcome, time, group

Each time that a message is given has a request id of its own, which joins its two notes.

Invariants: a message that its producer or broker wants no trace of has none.

Source: org.apache.rocketmq.client.trace.{TraceDataEncoder, hook.ConsumeMessageTraceHookImpl},
org.apache.rocketmq.client.consumer.listener.ConsumeReturnType (4.9.3).
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from wakelog.client.clocks import steady_ms, wall_ms
from wakelog.client.consumer_message import ConsumerMessage, GivenAt
from wakelog.client.options import ClientOptions, without_namespace
from wakelog.client.trace import Tracer, make_note
from wakelog.client.unique_ids import UniqueIds
from wakelog.protocol.names import TRACE_TOPIC
from wakelog.protocol.properties import KEYS, MSG_REGION, TRACE_ON

TRACE_OFF: Final = "false"


class Outcome(IntEnum):
    """What became of a message; the numbers are Java's ordinals."""

    SUCCESS = 0
    TIME_OUT = 1
    FAILED = 4


class ConsumerTracer:
    """See the module. One loop, one thread."""

    def __init__(self, tracer: Tracer, options: ClientOptions, ids: UniqueIds) -> None:
        """tracer: sends the notes."""
        self._tracer = tracer
        self._group = without_namespace(options.namespace, options.group)
        self._ids = ids

    def given(self, messages: Iterable[ConsumerMessage]) -> None:
        """Note messages that the user gets now."""
        for message in messages:
            properties = message.properties
            if properties.get(TRACE_ON) == TRACE_OFF or message.full_topic == TRACE_TOPIC:
                continue
            message.given_at = GivenAt(self._ids.make(), steady_ms())
            begin = "SubBefore", wall_ms(), properties.get(MSG_REGION, "")
            ids = self._group, message.given_at.request_id, message.message_id
            keys = properties.get(KEYS, "")
            fields = (*begin, *ids, message.reconsume_times, keys)
            self._tracer.add(make_note(fields, message.message_id, keys))

    def ended(self, message: ConsumerMessage, outcome: Outcome) -> None:
        """Note what became of a message, once for each time that it was given."""
        given_at, message.given_at = message.given_at, None
        if given_at is None:
            return
        took_ms, keys = steady_ms() - given_at.time_ms, message.properties.get(KEYS, "")
        success = "true" if outcome is Outcome.SUCCESS else "false"
        begin = "SubAfter", given_at.request_id, message.message_id, took_ms
        fields = (*begin, success, keys, int(outcome), wall_ms(), self._group)
        self._tracer.add(make_note(fields, message.message_id, keys))

    async def close(self) -> None:
        """Send the notes that wait."""
        await self._tracer.close()
