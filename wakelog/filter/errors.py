"""What can be wrong with a filter: its text, or the moment of its evaluation.

Source: org.apache.rocketmq.filter.expression.MQFilterException and the unchecked exceptions of that
package (4.9.3).
"""


class IllegalExpression(Exception):
    """An expression that cannot be compiled."""

    def __init__(self, remark: str) -> None:
        """Keep the remark of 4.9.3's response: the Java exception's class and text."""
        super().__init__(remark)
        self.remark = remark


class EvaluationFailed(Exception):
    """Values that cannot be compared; the message counts as not matching."""
