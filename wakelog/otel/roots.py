"""What begins a trace: its id, and the decision whether it is recorded.

Of a trace that the sampler drops, a single send leaves two ids in its message and nothing else. So
they are drawn as the text that the message gets, without numbers between.

Invariants: a generator of the user's own is asked for each id. In the place of the SDK's random one
stands one of this module, so that a user's seed does not make the same ids in two processes.

Source: opentelemetry.sdk.trace.id_generator.RandomIdGenerator (1.45).
"""

import os
import random
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from wakelog.otel.propagation import TRACEPARENT, plain_properties
from wakelog.otel.samplers import IDS_COMPARED, Rule

Draw = Callable[[], tuple[str, int]]
"""Returns the properties of a message that begins a trace which is dropped; else "", and the id of
the new trace, 0 if any will do."""

_RANDOM: Final = random.Random()
os.register_at_fork(after_in_child=_RANDOM.seed)


class Ids(NamedTuple):
    """What draws the ids of traces and of spans. are_random: whether any number is as good."""

    trace_id: Callable[[], int]
    span_id: Callable[[], int]
    are_random: bool = False


def ids_of(generator: Any, random_kind: type) -> Ids:
    """Return what draws ids in the place of a generator. random_kind: of the SDK's random one."""
    if type(generator) is not random_kind:
        return Ids(generator.generate_trace_id, generator.generate_span_id)
    return Ids(partial(_RANDOM.getrandbits, 128), partial(_RANDOM.getrandbits, 64), are_random=True)


def drawing(ids: Ids, rule: Rule | None, flags: int) -> Draw:
    """Return what begins a trace. flags: of a span that is dropped."""
    if rule is None or rule.sampled_below > IDS_COMPARED:
        return lambda: ("", 0)
    if ids.are_random:
        return _drawing_text(rule.sampled_below, flags)

    def draw() -> tuple[str, int]:
        trace_id = ids.trace_id()
        if trace_id & IDS_COMPARED < rule.sampled_below:
            return "", trace_id
        return plain_properties(trace_id, ids.span_id(), flags), 0

    return draw


def _drawing_text(sampled_below: int, flags: int) -> Draw:
    below, end, bits = f"{sampled_below:016x}", f"-0{flags}", _RANDOM.getrandbits

    def draw() -> tuple[str, int]:
        ids = bits(192).to_bytes(24, "big").hex("-", -16)
        if ids[16:32] < below:
            return "", int(ids[:32], 16)
        return f"{TRACEPARENT}{ids}{end}", 0

    return draw
