"""How Spark finds the source "rocketmq": it looks into modules named `pyspark_*`.

`spark.read.format("rocketmq")` needs no registration then. Everything is in `wakelog.spark`.
"""

try:
    from wakelog.spark.source import RocketMQSource as DefaultSource
except ImportError as error:
    raise ImportError(f"{error}; it comes with pip install 'wakelog[spark]'") from error

__all__ = ["DefaultSource"]
