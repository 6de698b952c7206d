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

from wakelog.otel.roots import Ids, drawing, ids_of
from wakelog.otel.samplers import rule_of

RANDOM = ids_of(RandomIdGenerator(), RandomIdGenerator)
SAMPLERS = [ALWAYS_OFF, *map(TraceIdRatioBased, (1e-7, 0.01, 1 / 3, 0.9)), ParentBased(ALWAYS_OFF)]
DROPPED = re.compile(r"\x02traceparent\x0100-([0-9a-f]{32})-([0-9a-f]{16})-02")


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
@pytest.mark.parametrize("ids_drawn", [RANDOM, RANDOM._replace(are_random=False)])
def test_a_trace_is_dropped_as_the_sampler_would(sampler: Sampler, ids_drawn: Ids) -> None:
    draw = drawing(ids_drawn, rule_of(sampler), 2)
    ids = set[str]()
    for _ in range(2_000):
        dropped, trace_id = draw()
        if dropped:
            found = DROPPED.fullmatch(dropped)
            assert found and not trace_id
            trace_id = int(found[1], 16)
            ids.add(found[2])
        ids.add(f"{trace_id:032x}")
        wanted = sampler.should_sample(Context(), trace_id, "name").decision
        assert bool(dropped) is (wanted is Decision.DROP)
    assert len(ids) > 2_000


@pytest.mark.parametrize("sampler", [ALWAYS_ON, ParentBased(ALWAYS_ON), TraceIdRatioBased(1.0)])
def test_where_none_is_dropped_none_is_drawn(sampler: Sampler) -> None:
    numbers = Numbers()
    assert drawing(own(numbers), rule_of(sampler), 0)() == ("", 0)
    assert drawing(own(numbers), None, 0)() == ("", 0)
    assert numbers.last == 0


def test_a_users_own_ids_are_taken() -> None:
    draw = drawing(own(Numbers()), rule_of(ALWAYS_OFF), 0)
    assert draw() == (f"\x02traceparent\x0100-{1:032x}-{2:016x}-00", 0)
    draw = drawing(own(Numbers()), rule_of(TraceIdRatioBased(0.5)), 0)
    assert draw() == ("", 1)


def test_no_seed_and_no_fork_makes_the_same_ids() -> None:
    draw = drawing(RANDOM, rule_of(ALWAYS_OFF), 2)
    random.seed(7)
    drawn = {draw()}
    random.seed(7)
    drawn.add(draw())
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writer, draw()[0].encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        drawn.add((pipe.read().decode(), 0))
    drawn.add(draw())
    assert len(drawn) == 4
