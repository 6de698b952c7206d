"""What the SDK's own samplers decide, as a number: to ask one takes 1 to 2 µs.

A sampler of the SDK says in its description what it does. Of every other one nothing is known.

Source: opentelemetry.sdk.trace.sampling (1.45).
"""

import re
from typing import Any, Final, NamedTuple

IDS_COMPARED: Final = (1 << 64) - 1
"""The part of a trace's id that a ratio is compared with."""

_ROOT: Final = r"(AlwaysOnSampler|AlwaysOffSampler|TraceIdRatioBased\{(?P<ratio>[0-9.e-]+)\})"
_PARENT_BASED: Final = (
    rf"ParentBased\{{root:{_ROOT},remoteParentSampled:AlwaysOnSampler,"
    r"remoteParentNotSampled:AlwaysOffSampler,localParentSampled:AlwaysOnSampler,"
    r"localParentNotSampled:AlwaysOffSampler\}"
)
_MODULE: Final = "opentelemetry.sdk.trace.sampling"


class Rule(NamedTuple):
    """How a sampler decides.

    sampled_below: a span is sampled if the last 64 bits of its trace's id are less.
    follows_parent: a span with a parent is sampled if that is.
    """

    sampled_below: int
    follows_parent: bool


def rule_of(sampler: Any) -> Rule | None:
    """Return how a sampler decides, None if that is not known."""
    if type(sampler).__module__ != _MODULE:
        return None
    description = sampler.get_description()
    for pattern, follows_parent in ((_ROOT, False), (_PARENT_BASED, True)):
        found = re.fullmatch(pattern, description)
        if found is not None and (ratio := found["ratio"]) is not None:
            return Rule(round(float(ratio) * (IDS_COMPARED + 1)), follows_parent)
        if found is not None:
            is_on = found[1] == "AlwaysOnSampler"
            return Rule(IDS_COMPARED + 1 if is_on else 0, follows_parent)
    return None
