"""A rebuild in parts that run apart from one another: by segment first, then by queue and index.

    segment_scan.py   a segment of the log -> its queue entries, by bucket, and its index keys
    pieces.py         the files that hold both in between
    queue_merge.py    some buckets of all segments -> consume queues
    index_merge.py    some keys of all segments -> one index file
    stretches.py      the log read and scanned apart, by threads, for one who dispatches in order
    turns.py          work done in the caller's own thread, for who has none or would only wait

A record knows its place in its queue, but not what a queue does about a place that is taken, left
out or far ahead: that depends on what came before (`storage/queue/consume_queue_writer.py`). And
an index file's chains depend on every key before. So segments are read apart, which is nearly all
of the work, and what came of them, some 60 bytes a message, is put in order afterwards, a queue
and an index file at a time, by the writers that Reput uses.

Invariants: the same log gives the same files as `rebuild.py`, byte for byte but for the names of
index files; a part that is run again writes the same bytes.

Source: none upstream; what is made is that of
org.apache.rocketmq.store.DefaultMessageStore.ReputMessageService (4.9.3).
"""
