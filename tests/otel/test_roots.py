"""What begins a trace, beside the sampler that decides on it."""

import os
import random
import re

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    Decision,
    ParentBased,
    Sampler,
    TraceIdRatioBased,
)

from wakelog.otel.roots import NOT_DRAWN, Ids, drawing, ids_of
from wakelog.otel.samplers import rule_of

RANDOM = ids_of(RandomIdGenerator(), RandomIdGenerator)
SAMPLERS = [
    ALWAYS_OFF,
    ALWAYS_ON,
    *map(TraceIdRatioBased, (1e-7, 0.01, 1 / 3, 0.9, 1.0)),
    ParentBased(ALWAYS_OFF),
]
WRITTEN = re.compile(r"\x02traceparent\x0100-([0-9a-f]{32})-([0-9a-f]{16})-0([23])")


class Numbers(IdGenerator):
    """Ids of a user's own: one after the other, for both kinds."""

    def __init__(self) -> None:
        self.last = 0

    def generate_span_id(self) -> int:
        self.last += 1
        return self.last

    def generate_trace_id(self) -> int:
        return self.generate_span_id()


def own(generator: IdGenerator) -> Ids:
    return ids_of(generator, RandomIdGenerator)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda x: x.get_description())
@pytest.mark.parametrize("ids", [RANDOM, RANDOM._replace(are_random=False)])
def test_a_trace_is_dropped_as_the_sampler_would(sampler: Sampler, ids: Ids) -> None:
    draw = drawing(ids, rule_of(sampler), 2, 3)
    seen = set[str]()
    for _ in range(2_000):
        root = draw()
        found = WRITTEN.fullmatch(root.properties)
        assert found
        wanted = sampler.should_sample(Context(), int(found[1], 16), "name").decision
        is_recorded = wanted is Decision.RECORD_AND_SAMPLE
        assert found[3] == ("3" if is_recorded else "2")
        numbers = (int(found[1], 16), int(found[2], 16)) if is_recorded else (0, 0)
        assert (root.trace_id, root.span_id) == numbers
        seen |= {found[1], found[2]}
    assert len(seen) == 4_000


def test_where_the_sampler_has_to_be_asked_nothing_is_drawn() -> None:
    numbers = Numbers()
    for ids in (own(numbers), RANDOM):
        assert drawing(ids, None, 2, 3)() is NOT_DRAWN
    assert numbers.last == 0


def test_a_users_own_ids_are_taken() -> None:
    draw = drawing(own(Numbers()), rule_of(ALWAYS_OFF), 0, 1)
    assert draw() == (f"\x02traceparent\x0100-{1:032x}-{2:016x}-00", 0, 0)
    draw = drawing(own(Numbers()), rule_of(ALWAYS_ON), 0, 1)
    assert draw() == (f"\x02traceparent\x0100-{1:032x}-{2:016x}-01", 1, 2)


def test_no_seed_and_no_fork_makes_the_same_ids() -> None:
    draw = drawing(RANDOM, rule_of(ALWAYS_OFF), 2, 3)
    random.seed(7)
    drawn = {draw().properties}
    random.seed(7)
    drawn.add(draw().properties)
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writer, draw().properties.encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        drawn.add(pipe.read().decode())
    drawn.add(draw().properties)
    assert len(drawn) == 4
