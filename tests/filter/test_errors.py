"""The tree of errors and what it carries."""

from wakelog.filter.errors import EvaluationFailed, FilterError, IllegalExpression


def test_an_illegal_expression_carries_code_and_remark() -> None:
    assert IllegalExpression("a remark").remark == str(IllegalExpression("a remark")) == "a remark"
    assert issubclass(IllegalExpression, FilterError) and issubclass(EvaluationFailed, FilterError)
