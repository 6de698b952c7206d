"""What can be wrong with a filter: its text, or the moment of its evaluation.

    FilterError
      IllegalExpression     the text is no expression; `remark` is what a client is told
      EvaluationFailed      values that cannot be compared; the message counts as not matching

Source: org.apache.rocketmq.filter.expression.MQFilterException and the unchecked exceptions of that
package (4.9.3).
"""

from __future__ import annotations


class FilterError(Exception):
    """Root of this package's errors."""


class IllegalExpression(FilterError):
    """An expression that cannot be compiled."""

    def __init__(self, remark: str) -> None:
        """Keep the remark of 4.9.3's answer: the Java exception's class and text."""
        super().__init__(remark)
        self.remark = remark


class EvaluationFailed(FilterError):
    """An evaluation that ended without a result, as an exception does upstream."""
