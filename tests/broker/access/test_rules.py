"""The rules of the request table: each is of use, and names what its requests have."""

import pytest

from wakelog.broker.access import rules
from wakelog.broker.processors.table import PROCESSORS
from wakelog.network.request import Access

RULES = {name: rule for name, rule in vars(rules).items() if isinstance(rule, Access)}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_names_an_attribute_of_every_request_that_has_it(name: str) -> None:
    rule = RULES[name]
    rows = [row for row in PROCESSORS.values() if rule in row.access]
    assert rows
    for row in rows:
        fields = () if row.header is None else row.header.__struct_fields__
        assert not rule.attribute or rule.attribute in fields
