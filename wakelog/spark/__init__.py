"""The log as a Spark table: `spark.read.format("rocketmq")`, batch and stream, from files.

    remote/      the same over the wire, from any RocketMQ 4.x
    sink/        the other way: rows over the wire to brokers
    jobs/        what is done with whole logs; report/ draws one
    side_files/  Parquet files that a broker writes as its log grows

From a store directory to rows, in the order of reading:

    options.py             what the user asked for, checked; option_texts.py reads each text,
                           columns.py names what there is to ask
    stores.py log_end.py   which segments there are, and where the log ends
    bounds.py starts.py    which queues, from which offset or time, up to which
    store_view.py          what these two ask of a store; pushdown.py adds a query's filters
    snapshots.py           in the place of these, what a broker handed over; handoff.py takes it
    plan.py query.py       ranges of files for each task; nothing is read twice, nothing left out
    records/               a range of a file -> sound records and damage -> record batches
    reader.py tasks.py     one task: its part of the plan in, batches or damage out
    source.py stream.py    what Spark calls; ray_data.py is what Ray Data calls
    session.py             a session with what it needs

All of this list but the last four is plain Python, numpy and pyarrow, and is tested without Spark.
`pyspark_rocketmq` at the root is how Spark finds the source without registration.

Invariants: files are read with `pread` and never mapped or locked; a task's memory is bounded by
its batches; a record is returned whole and once, or reported as damage.
"""
