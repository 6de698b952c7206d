"""The remote mode of the source: over the wire from any RocketMQ 4.x cluster, found by name server.

    cluster.py        which queues a query is about, and what each of them has
    starts.py         where each begins and ends: offsets, times, a group's
    plan.py           ranges of queues for each task
    query.py          a batch query: all of this
    stream.py         what Spark calls for a stream
    pulled_kernel.py pulled_walk.py   bodies of answers -> sound records in columns
    puller.py         one range: pull after pull, and what an answer means
    reader.py         one task: ranges in, batches out

A row is made of what a broker stores, as in file mode; a queue's offset takes the place of a place
in the log.

Invariants: an offset of a range becomes a row once, is of another tag, or is said to be lost or
damaged; brokers are changed by nothing but the group's name and `commitOffsetsToGroup`.
"""
