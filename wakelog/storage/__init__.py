"""Bytes on disk: append, read, recover, delete. The files are those of RocketMQ 4.9.3.

    commitlog/              every message, in the order of arrival     the truth
    consumequeue/T/Q/       20 bytes a message, where it lies          rebuilt from the log
    consumequeue_ext/T/Q/   what a filter computed ahead               rebuilt from the log
    index/                  messages by key                            rebuilt from the log
    checkpoint              three times, advisory
    abort lock              a broker runs; it alone
    config/*.json           topics, groups, offsets: the broker's texts
    wakelog.store           the broker that owns this store

Read in this order:

    errors file_system paths config      the vocabulary, and the only way to the disk
    settings_text live_settings          settings as text, and while a program runs
    log/                                 segments; append, flush, commit, allocate
    queue/ index/ columns/               from records to queues and keys; compiled scans
    durability/                          the small files: what is durable, which broker owns it
    recovery/ read/                      the log's end after a stop; pulls and queries
    store_parts -> message_store         a store is opened, closed and served
    retention/                           what is deleted, and when

Invariants: one process writes the log, one writes queues and index; readers trust watermarks and
bytes, never a writer's memory. Nothing here sleeps or reads a clock. Only `file_system` knows the
operating system, and starts threads: for the time of one call, to sync several files at once.
"""
