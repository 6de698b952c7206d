"""What begins a trace: two ids, and the decision whether it is recorded.

Of a trace that the sampler drops, a single send leaves two ids in its message and nothing else. So
they are drawn as the text that the message gets, and become numbers if the span is recorded.

Invariants: a generator of the user's own is asked for each id. In the place of the SDK's random one
stands one of this module, so that a user's seed does not make the same ids in two processes.

Source: opentelemetry.sdk.trace.id_generator.RandomIdGenerator (1.45).
"""

import os
import random
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from wakelog.otel.guarded import log_failure
from wakelog.otel.propagation import TRACEPARENT, plain_properties
from wakelog.otel.samplers import IDS_COMPARED, Rule


class Root(NamedTuple):
    """A span that begins a trace.

    properties: of its messages; "" if nothing was drawn. trace_id, span_id: 0 if it is dropped.
    """

    properties: str
    trace_id: int = 0
    span_id: int = 0


NOT_DRAWN: Final = Root("")
_ABOVE_ALL: Final = "g"
"""Greater than every text of an id."""

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
        trace_id = partial(_drawn_by, generator.generate_trace_id, 128)
        return Ids(trace_id, partial(_drawn_by, generator.generate_span_id, 64))
    return Ids(partial(_RANDOM.getrandbits, 128), partial(_RANDOM.getrandbits, 64), are_random=True)


def _drawn_by(draw: Callable[[], int], bits: int) -> int:
    """Return an id of a user's generator; one at random if that raises, or gives no id."""
    try:
        drawn = draw()
        if drawn <= 0 or drawn.bit_length() > bits:
            raise ValueError(f"{drawn} is no id of {bits} bits")
    except Exception:
        log_failure("drawing an id")
        return _RANDOM.getrandbits(bits)
    return drawn


def drawing(ids: Ids, rule: Rule | None, dropped: int, sampled: int) -> Callable[[], Root]:
    """Return what begins a trace; it draws nothing if only the sampler itself can decide.

    dropped, sampled: the flags of a span that is dropped, and of one that is recorded.
    """
    if rule is None:
        return lambda: NOT_DRAWN
    if ids.are_random:
        return _drawing_text(rule.sampled_below, f"-0{dropped}", f"-0{sampled}")

    def draw() -> Root:
        trace_id, span_id = ids.trace_id(), ids.span_id()
        if trace_id & IDS_COMPARED < rule.sampled_below:
            return Root(plain_properties(trace_id, span_id, sampled), trace_id, span_id)
        return Root(plain_properties(trace_id, span_id, dropped))

    return draw


def _drawing_text(sampled_below: int, dropped: str, sampled: str) -> Callable[[], Root]:
    below = _ABOVE_ALL if sampled_below > IDS_COMPARED else f"{sampled_below:016x}"
    bits, root = _RANDOM.getrandbits, partial(tuple.__new__, Root)

    def draw() -> Root:
        ids = bits(192).to_bytes(24, "big").hex("-", -16)
        if ids[16:32] < below:
            found = f"{TRACEPARENT}{ids}{sampled}", int(ids[:32], 16), int(ids[33:], 16)
        else:
            found = f"{TRACEPARENT}{ids}{dropped}", 0, 0
        return root(found)  # half the time of a call of the class

    return draw
