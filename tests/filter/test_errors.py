"""The remark of a refused expression."""

from wakelog.filter.errors import IllegalExpression


def test_an_illegal_expression_carries_its_remark() -> None:
    assert IllegalExpression("a remark").remark == str(IllegalExpression("a remark")) == "a remark"
