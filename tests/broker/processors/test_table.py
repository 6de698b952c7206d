"""Tests of the request table: its access rules are those of 4.9.3, section 7.4."""

import msgspec
import pytest

from wakelog.broker.processors.table import NAME_SERVER_CODES, PROCESSORS
from wakelog.nameserver.processors import PROCESSORS as NAME_SERVER_PROCESSORS
from wakelog.network.request import Permission, Resource

# Code to (permission, resource, field on the wire). 4.9.3 checks no other code of ours: 320, 14,
# 41 and the reads of operators need a valid signature only.
ACCESS = {
    10: {("PUB", "topic", "topic")},
    310: {("PUB", "topic", "b")},
    36: {("PUB", "topic", "originTopic"), ("SUB", "group", "group")},
    11: {("SUB", "topic", "topic"), ("SUB", "group", "consumerGroup")},
    12: {("SUB", "topic", "topic")},
    34: {("SUB", "heartbeat", "")},
    35: {("SUB", "group", "consumerGroup")},
    38: {("SUB", "group", "consumerGroup")},
    15: {("SUB", "group", "consumerGroup"), ("SUB", "topic", "topic")},
    17: {("ADMIN", "server", "")},
    **{code: {("ADMIN", "server", "")} for code in (25, 200, 207, 215)},
    **{code: {("ADMIN", "accounts", "")} for code in (50, 51, 53)},
    52: {("ADMIN", "server", "")},
    # These change something, too; 4.9.3 lets every account do so.
    301: {("ADMIN", "server", "")},
    **{code: {("ADMIN", "server", "")} for code in (222, 306, 309, 314, 316, 323)},
}


def wire_name(code: int, attribute: str) -> str:
    """Return the field of a row's header that an attribute stands for, "" for no attribute."""
    header = PROCESSORS[code].header
    fields = (
        {} if header is None else {f.name: f.encode_name for f in msgspec.structs.fields(header)}
    )
    return fields[attribute] if attribute else ""


@pytest.mark.parametrize("code", sorted(PROCESSORS))
def test_a_row_has_the_access_rules_of_4_9_3(code: int) -> None:
    rules = PROCESSORS[code].access
    found = {(rule.permission, rule.resource, wire_name(code, rule.attribute)) for rule in rules}
    assert found == ACCESS.get(code, {("ANY", "server", "")})


def test_only_rules_for_the_broker_and_for_heartbeats_have_no_attribute() -> None:
    for row in PROCESSORS.values():
        for rule in row.access:
            named = rule.resource in (Resource.TOPIC, Resource.GROUP)
            assert bool(rule.attribute) is named
            assert (rule.permission in (Permission.ADMIN, Permission.ANY)) is (
                rule.resource in (Resource.SERVER, Resource.ACCOUNTS)
            )


def test_the_codes_of_a_name_server_are_those_that_it_handles() -> None:
    assert NAME_SERVER_PROCESSORS.keys() == NAME_SERVER_CODES
