"""The sink: `df.write.format("rocketmq")` and `writeStream`, over the wire to any RocketMQ 4.x.

    options.py     the options of a write, and its columns
    rows.py        Arrow batches -> messages, all checked before the first one is sent
    unique_keys.py the unique key of a row, the same in every attempt
    writer.py      what Spark calls

`wakelog/client` packs the messages into requests and sends them.

Invariants: a task succeeds only after a broker acknowledged every row. A row that is sent again has
the same unique key, so that consumers can detect it.
"""
