"""Parquet files beside the log, written as it grows: what `parquetDispatcher` switches on.

    dispatcher.py   when a file is due, and what happens at a restart, a cut and after retention
    gather.py       a range of the log -> tables by topic, with the columns of the Spark source
    agreement.py    whether files are of this log still, or of what another broker cut from it
    folder.py       tables -> files, whole or not at all; which ranges of the log are there

It runs as plug-ins of others do (`dispatchers/plugins.py`): in a thread of its own, with a cursor
that it moves, and it holds nobody. Plain Python, numba and pyarrow; Spark only reads what comes of
it.
"""
