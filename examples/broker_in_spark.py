"""A broker inside Spark: the session hosts a Ray cluster, and the broker's actors run in that.

    python examples/broker_in_spark.py ./store

Spark sends messages to the broker, as any client could. It reads them back from the broker's files,
by a snapshot that the broker hands over. Ray Data counts the same messages on another node.
"""

import argparse

import ray

from wakelog.actors.deploy.plan import UpOptions
from wakelog.actors.deploy.planning import make_plan
from wakelog.actors.deploy.supervised import hosted_brokers
from wakelog.actors.ray.hosted_ray import hosted_ray
from wakelog.ray_data import read_wakelog, write_wakelog
from wakelog.spark.handoff import held_snapshot, read_snapshot
from wakelog.spark.session import open_session


def main(store: str, name_server_port: int = 9876, broker_port: int = 10911) -> None:
    """Start all of it, send and read, and stop it in order."""
    # Two executors with one slot each: one for a node of Ray's, one for Spark's own tasks.
    spark = open_session("local-cluster[2,1,1024]")
    plan = make_plan(
        UpOptions(
            store=store,
            name_server_port=name_server_port,
            broker_port=broker_port,
            metrics_port=0,
        )
    )
    with hosted_ray(worker_nodes=1) as cluster, hosted_brokers(cluster, plan):
        orders = spark.range(1000).selectExpr("cast(id as string) as body", "'paid' as tags")
        target = {"nameServer": plan.name_server_address, "topic": "orders"}
        orders.write.format("rocketmq").mode("append").options(**target).save()

        broker = ray.get_actor("broker-a.Broker", namespace="wakelog")
        with held_snapshot(broker, holder="the example") as snapshot:
            table = read_snapshot(spark, snapshot, topic="orders")
            print("Spark reads", table.count(), "orders")
            dataset = read_wakelog("orders", snapshots=[snapshot])
            print("Ray Data reads", dataset.count(), "orders")
            paid = dataset.select_columns(["body", "tags"])
            write_wakelog(paid, plan.name_server_address, "paid")
        with held_snapshot(broker, holder="the example") as snapshot:
            print("Ray Data wrote", read_snapshot(spark, snapshot, topic="paid").count(), "orders")
    spark.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    parser.add_argument("name_server_port", type=int, nargs="?", default=9876)
    parser.add_argument("broker_port", type=int, nargs="?", default=10911)
    main(**vars(parser.parse_args()))
