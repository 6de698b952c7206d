"""Lets Spark find the source "rocketmq": Spark imports modules named `pyspark_*`.

So `spark.read.format("rocketmq")` needs no registration. The source is in `wakelog.spark`.
"""

try:
    from wakelog.spark.source import RocketMQSource as DefaultSource
except ImportError as error:
    raise ImportError(f"{error}; it comes with wakelog's extra spark") from error

__all__ = ["DefaultSource"]
