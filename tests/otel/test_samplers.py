"""What is known of the SDK's samplers."""

import random
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import sampling
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    Decision,
    ParentBased,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from wakelog.otel.samplers import IDS_COMPARED, rule_of

ROOTS = [ALWAYS_ON, ALWAYS_OFF, *map(TraceIdRatioBased, (0.0, 1e-7, 0.01, 1 / 3, 0.5, 1.0))]
PARENTS = [
    NonRecordingSpan(SpanContext(5, 7, is_remote, TraceFlags(flags)))
    for is_remote in (True, False)
    for flags in range(4)
]


@pytest.mark.parametrize("root", ROOTS, ids=lambda x: x.get_description())
def test_a_rule_decides_as_the_sampler_does(root: Sampler) -> None:
    drawn = random.Random(7)
    for sampler in (root, ParentBased(root)):
        rule = rule_of(sampler)
        assert rule is not None
        assert rule.follows_parent is isinstance(sampler, ParentBased)
        bounds = [rule.sampled_below + near for near in (-1, 0, 1)]
        ids = [*bounds, *(drawn.getrandbits(128) for _ in range(200))]
        for trace_id in ids:
            wanted = sampler.should_sample(Context(), max(trace_id, 1), "name")
            is_sampled = max(trace_id, 1) & IDS_COMPARED < rule.sampled_below
            assert is_sampled == (wanted.decision is Decision.RECORD_AND_SAMPLE)
        for parent in PARENTS:
            context = trace.set_span_in_context(parent, Context())
            wanted = sampler.should_sample(context, 5, "name")
            is_sampled = rule.sampled_below > 5
            if rule.follows_parent:
                is_sampled = bool(parent.get_span_context().trace_flags & 1)
            assert is_sampled == (wanted.decision is Decision.RECORD_AND_SAMPLE)


class Own(Sampler):
    """A sampler of a user, which says that it is one of the SDK's."""

    def should_sample(self, *given: Any, **named: Any) -> SamplingResult:
        """Drop all."""
        return SamplingResult(Decision.DROP)

    def get_description(self) -> str:
        """Say so."""
        return "AlwaysOnSampler"


@pytest.mark.parametrize(
    "sampler",
    [
        Own(),
        sampling.AlwaysRecordSampler(ALWAYS_ON),
        ParentBased(ALWAYS_ON, remote_parent_sampled=ALWAYS_OFF),
        ParentBased(ALWAYS_ON, local_parent_not_sampled=ALWAYS_ON),
        ParentBased(ParentBased(ALWAYS_ON)),
    ],
)
def test_of_others_nothing_is_known(sampler: Sampler) -> None:
    assert rule_of(sampler) is None
