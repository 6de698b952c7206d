"""Writes a table to a topic and reads it back over the wire, with any RocketMQ 4.x.

    ./dev up &                                                # or any name server and broker
    python examples/spark_over_the_wire.py 127.0.0.1:9876 orders

The unique keys tell the written messages from older ones.
"""

import sys
import uuid

from pyspark.sql import DataFrame, SparkSession

from wakelog.spark.session import open_session

COUNT = 1000


def write(spark: SparkSession, name_server: str, topic: str, query: str) -> None:
    """Send numbered messages; the orders of one customer keep their order."""
    table = spark.range(COUNT).selectExpr(
        "concat('order ', id) as body",
        "if(id % 3 = 0, 'paid', 'created') as tags",
        "concat('customer-', id % 7) as keys",
        "concat('customer-', id % 7) as shardingKey",
        f"concat('{query}-', id) as uniqueKey",
    )
    writer = table.write.format("rocketmq").mode("append")
    writer.options(nameServer=name_server, topic=topic).save()


def read(spark: SparkSession, name_server: str, topic: str, query: str) -> DataFrame:
    """Return the messages with the keys of this run."""
    table = spark.read.format("rocketmq").options(nameServer=name_server, topic=topic).load()
    return table.where(table.msgId.startswith(f"{query}-"))


def main(name_server: str, topic: str) -> int:
    """Write, read, and compare the counts."""
    query = uuid.uuid4().hex[:8]
    spark = open_session("local[2]")
    write(spark, name_server, topic, query)
    table = read(spark, name_server, topic, query).persist()
    table.groupBy("brokerName", "queueId").count().orderBy("brokerName", "queueId").show()
    count = table.count()
    table.unpersist()
    print(f"written {COUNT}, read {count}")
    return 0 if count == COUNT else 1


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: spark_over_the_wire.py HOST:PORT TOPIC")
    sys.exit(main(sys.argv[1], sys.argv[2]))
