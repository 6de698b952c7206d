"""Tools over a store at rest or beside a running broker: verify, rebuild, dump, compare, repair.

Nothing that serves a request imports this package; a contract in `pyproject.toml` enforces that.

    operator.py       progress, moved folders and signals: the person at the command
    record_dump.py    records by offset, topic, queue, key and time

    rebuild.py        the log -> queues and index in a new folder, and what the log holds
    stretches.py      the log read and scanned in parallel, for the dispatch in order
    workers.py        the threads that do that
    parts.py          the same by tasks that run before, as Spark's
    body_check.py     the CRC of each body, as a dispatcher

    verify.py         the proof that a store is sound, or the list of its damage
    findings.py       that list
    store_files.py    names, kinds and lengths of files
    comparison.py     queues and index against the rebuilt ones, with queue_compare.py and
                      index_compare.py for the entries and same_bytes.py for equal files
    scratch_files.py  a rebuild that takes disk space only where it differs from the store

    replacement.py    a rebuild in place of the store's own queues and index
    repair.py         the steps from a damaged store to a sound one

Read in this order. The entries are `verify`, `rebuild_into`, `rebuild_store` and `repair`.
"""
