"""Jobs over whole logs, each a function of a session and a store.

    rebuild.py   consume queues and index from the log's files alone
    audit.py     what is wrong with a log, its queues and its index
    export.py    new messages to Parquet files by topic and day
    traffic.py   lag, latency, hot keys, dead letters
    report.py    the same, with rates and sizes, as one page with charts
    resend.py    dead letters sent again
    compare.py   what one log has and another lacks

    run.py       work -> tasks of a session -> results, in order
    tables.py    what jobs read through the source

`wakelog spark NAME` and `wakelog/cli/spark_job.py`, for spark-submit, call the same
functions. A store and a folder that is written must be at the same path for every task.

Invariants: a store is only read; a repeated task has the same result.
"""
