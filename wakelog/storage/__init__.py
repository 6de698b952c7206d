"""Bytes on disk: append, read, recover, verify, delete. The files are those of RocketMQ 4.9.3.

    commitlog/              every message, in the order of arrival     the truth
    consumequeue/T/Q/       20 bytes a message, where it lies          rebuilt from the log
    consumequeue_ext/T/Q/   what a filter computed ahead               rebuilt from the log
    index/                  messages by key                            rebuilt from the log
    checkpoint              three times, advisory
    abort lock              a broker runs; it alone
    config/*.json           topics, groups, offsets: the broker's texts
    wakelog.store           whose store this is

Read in this order:

    errors.py file_system.py paths.py config.py    the vocabulary, and the only door to the disk
    mapped_file.py -> mapped_file_queue.py         one fixed-size file; files in sequence
    append.py queue_offsets.py -> commit_log.py    where a record goes; the single writer
    commit_log_reader.py                           the same bytes, from any process
    allocate.py flush.py commit.py transient_pool.py
                                                   what happens beside the writer
    record_check.py scan.py -> bulk/ queue/ index/ from records to queues and keys, and back
    durability/                                     the small files: who owns it, how it was left
    recovery/ read/    -> message_store.py         a store is opened and served
    retention/                                     what is deleted, and when
    sums/                                          what the log held when it was durable

Invariants: one process writes the log, one writes queues and index; readers trust watermarks and
bytes, never a writer's memory. Nothing here starts a thread, sleeps or reads a clock; only
file_system.py knows the operating system.
"""
