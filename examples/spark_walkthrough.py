# %% [markdown]
"""A log on Spark, cell by cell: read it, follow it, check it, export it, draw it.

Editors that know `# %%` show this file as a notebook; it runs as a program just as well:

    python examples/spark_walkthrough.py

Everything lies in a new folder below the system's temporary one, whose path is printed at the end.
The package's extra `spark` and a Java of version 17 or newer are all that it needs.
"""

# %% [markdown]
# ## An example log
# Two topics, three tags, five customers, four seconds. Any store directory of a wakelog broker or
# of a RocketMQ 4.9.3 would do too.

# %%
import tempfile
import time
from pathlib import Path

from wakelog.protocol.record import encode_record

folder = Path(tempfile.mkdtemp(prefix="wakelog-walkthrough-"))
log_folder = folder / "copied"
log_folder.mkdir()
segment_bytes = 1 << 20
now_ms = int(time.time() * 1000)
log = bytearray()
queue_offsets: dict[tuple[str, int], int] = {}


def send(topic: str, number: int) -> None:
    """Append a message as a broker would."""
    queue = topic, number % 4
    queue_offset = queue_offsets.get(queue, 0)
    queue_offsets[queue] = queue_offset + 1
    tag = ("created", "paid", "sent")[number % 3]
    pairs = {"TAGS": tag, "KEYS": f"customer-{number % 5}", "UNIQ_KEY": f"{topic}{number:06d}"}
    global log
    log += encode_record(
        topic=topic,
        queue_id=queue[1],
        queue_offset=queue_offset,
        physical_offset=len(log),
        body=b'{"amount": %d}' % number,
        properties="\x02".join(f"{name}\x01{value}" for name, value in pairs.items()).encode(),
        flag=0,
        sys_flag=0,
        born_timestamp_ms=now_ms + 10 * number - number % 7,
        born_host=("127.0.0.1", 40000),
        store_timestamp_ms=now_ms + 10 * number,
        store_host=("127.0.0.1", 10911),
        reconsume_times=0,
        prepared_transaction_offset=0,
    )


def write_log() -> None:
    """Write the only file of the log, with full length, as brokers do."""
    (log_folder / f"{0:020d}").write_bytes(bytes(log).ljust(segment_bytes, b"\0"))


for number in range(400):
    send("payments" if number % 4 == 3 else "orders", number)
write_log()

# %% [markdown]
# ## A session
# `open_session` sets what the workers of Spark need, and its errors say what is missing. Your own
# session works too.

# %%
from wakelog.spark.session import open_session  # noqa: E402 - each cell brings what it uses

spark = open_session("local[2]")

# %% [markdown]
# ## The table
# A row is a message. The format needs no registration.

# %%
messages = spark.read.format("rocketmq").load(str(log_folder))
messages.printSchema()
messages.select("topic", "queueId", "queueOffset", "tags", "keys", "storeTimestamp").show(5)

# %% [markdown]
# Bodies are bytes, which Spark's own functions can parse.

# %%
messages.createOrReplaceTempView("messages")
by_tag = spark.sql(
    """
    select topic, tags, count(*) as messages,
           sum(cast(get_json_object(cast(body as string), '$.amount') as bigint)) as amount
    from messages group by topic, tags order by topic, tags
    """
)
by_tag.show()
assert by_tag.count() == 6

# %% [markdown]
# Only the named columns are made, and options limit what is read.

# %%
paid = (
    spark.read.format("rocketmq")
    .option("topic", "orders")
    .option("subExpression", "paid")
    .option("columns", "queueId,queueOffset,keys")
    .load(str(log_folder))
)
paid.groupBy("keys").count().orderBy("keys").show()
assert paid.columns == ["queueId", "queueOffset", "keys"]

# %% [markdown]
# ## A stream
# It continues at its checkpoint. `availableNow` reads the messages that there are, and ends.


# %%
def follow() -> int:
    """Bring a Parquet table up to date; return how many messages it has."""
    stream = (
        spark.readStream.format("rocketmq")
        .option("startingOffsets", "earliest")
        .load(str(log_folder))
        .writeStream.format("parquet")
        .option("path", str(folder / "followed"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    stream.awaitTermination()
    return spark.read.parquet(str(folder / "followed")).count()


print("messages followed:", follow())
for number in range(400, 450):
    send("orders", number)
write_log()
print("and after fifty more:", follow())

# %% [markdown]
# ## Jobs
# Queues and index from the log alone, as a broker makes them; a check of the log; Parquet by topic
# and day; the keys with the most messages.

# %%
from wakelog.spark.jobs.audit import audit  # noqa: E402
from wakelog.spark.jobs.export import export  # noqa: E402
from wakelog.spark.jobs.rebuild import rebuild  # noqa: E402
from wakelog.spark.jobs.traffic import hotkeys  # noqa: E402
from wakelog.storage.config import StoreConfig  # noqa: E402

config = StoreConfig(
    store_path_root=str(log_folder),
    store_path_commit_log=str(log_folder),
    commit_log_file_bytes=segment_bytes,
)
rebuilt = rebuild(spark, config, str(folder / "rebuilt"))
print("queues rebuilt:", rebuilt.queues_count, "keys:", rebuilt.keys_count)
assert audit(spark, config).count() == 0
exported = export(spark, str(log_folder), str(folder / "parquet"))
print("rows exported:", exported.rows_count)
hotkeys(spark, str(log_folder)).show(3)

# %% [markdown]
# ## A picture
# One HTML file that opens in a browser without a network.

# %%
from wakelog.spark.jobs.report import report  # noqa: E402

page = report(spark, str(log_folder), str(folder / "report.html"))
print("all of it is in", folder)
print("look at", page.path)
