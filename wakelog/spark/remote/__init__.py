"""The remote mode of the source: over the wire, from any RocketMQ 4.x cluster.

    queues.py         the queues of a query, their offsets, and where each begins and ends
    query.py          the plan: ranges of queues for each task
    stream.py         what Spark calls for a stream
    puller.py         one range: pull after pull, and what each response means
    pulled_walk.py                    bodies of responses -> sound records in columns
    reader.py         one task: its range becomes record batches

The requests are in `wakelog/client`. Rows are made of what a broker stores, as in file mode; the
offset in a queue takes the place of the offset in the log.

Invariants: each offset of a range becomes one row, has another tag, or is reported as lost or
damaged. Reads change nothing at a broker but the offsets of `commitOffsetsToGroup`.
"""
