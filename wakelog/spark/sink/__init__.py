"""The sink: `df.write.format("rocketmq")` and `writeStream`, over the wire to any RocketMQ 4.x.

    options.py     what the user asked for, checked
    rows.py        Arrow batches -> messages, checked before anything of them is sent
    unique_keys.py which key a row has, the same when it is written again
    packing.py     messages -> requests, many messages in one where that may be
    writer.py      what Spark calls

Invariants: a task ends well only if a broker has acknowledged every row; a row that is sent again
has the unique key that it had, so that consumers can tell.
"""
