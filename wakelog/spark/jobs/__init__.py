"""Jobs over whole logs, each a function of a session and what to work on.

    rebuild.py   consume queues and index from the log's files alone
    audit.py     what is wrong with a log, its queues and its index
    export.py    messages into Parquet files by topic and day: what is new
    reports.py   lag, latency, hot keys, dead letters
    report.py    the same, and rates and sizes, as one page with pictures
    compare.py   what one log has and another lacks

    run.py       work -> tasks of a session -> results, in order
    tables.py    what jobs read through the source

`wakelog spark NAME` and `wakelog/cli/submit/spark_job.py`, for spark-submit, call the same
functions. Stores, and folders that are written, have to be at the same path for every task.

Invariants: a store is only read; a task that is run again does the same again.
"""
