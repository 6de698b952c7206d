"""Instructions are values: a shell may keep, compare, count and log them."""

from typing import get_args

import msgspec
import pytest

from wakelog.nameserver.decision import (
    BrokerJoined,
    BrokerLeft,
    Cause,
    CloseChannel,
    ConfigurationChanged,
    ForgetTopics,
    Instruction,
    NotAllowed,
)
from wakelog.network.audit_line import AuditLine

EXAMPLES = [
    CloseChannel(7),
    BrokerJoined("broker-a", 0, "10.0.0.1:10911", topic_count=3),
    BrokerLeft("broker-a", 0, "10.0.0.1:10911", Cause.EXPIRED),
    ForgetTopics("broker-a"),
    ConfigurationChanged("listenPort=1", "10.0.0.9", "kept"),
    NotAllowed(103, "10.0.0.9", "no administrator"),
]


def test_every_kind_has_an_example() -> None:
    assert {type(example) for example in EXAMPLES} == set(get_args(Instruction)) - {AuditLine}


@pytest.mark.parametrize("instruction", EXAMPLES, ids=lambda example: type(example).__name__)
def test_an_instruction_is_a_value_of_plain_parts(instruction: Instruction) -> None:
    parts = msgspec.to_builtins(instruction)
    assert all(isinstance(part, str | int) for part in parts.values())
    assert msgspec.convert(parts, type(instruction)) == instruction
    assert len({instruction, msgspec.convert(parts, type(instruction))}) == 1
    with pytest.raises(AttributeError):
        setattr(instruction, next(iter(parts)), None)
