"""Parquet files beside the log, written as it grows, with the option `parquetDispatcher`.

    dispatcher.py   when a file is due, and what restart, truncation and retention do to files
    gather.py       a range of the log -> tables by topic, with the columns of the Spark source
    agreement.py    whether the files still agree with the log
    folder.py       tables -> files, whole or not at all; the ranges that have files

It runs as every plug-in does (`dispatchers/plugins.py`): in its own thread and with its own cursor,
so that it delays no other dispatcher. It uses pyarrow; Spark only reads the files.
"""
