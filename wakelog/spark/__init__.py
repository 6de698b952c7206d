"""The log as a Spark table: `spark.read.format("rocketmq")`, batch and stream, from files.

    remote/      the same over the wire, from any RocketMQ 4.x
    sink/        rows over the wire to brokers
    jobs/        jobs over whole logs; report/ draws one
    side_files/  Parquet files that a broker writes as its log grows

A read from a store directory, in the order of its steps:

    options.py             the options, checked; option_texts.py reads each text, positions.py
                           where a read begins and ends, columns.py names the columns
    stores.py log_end.py   the segments of each store, and the end of its log
    bounds.py starts.py    the queues, with the begin and the end of each
    store_view.py          what these two ask of a store
    snapshots.py           instead of a store, a snapshot of a broker; handoff.py takes it
    plan.py query.py       ranges of files for each task, without gap or overlap
    records/               a range of a file -> sound records and damage -> record batches
    reader.py tasks.py     one task: its part of the plan becomes batches or damage
    source.py              what Spark calls for tables; stream.py and trigger.py for streams
    ray_data.py            what Ray Data calls
    session.py             opens a session; worker_memory.py speeds up its workers

Only `source`, `stream`, `trigger`, `tasks` and `session` use Spark; the rest is tested without it.
Spark finds the source by `pyspark_rocketmq` at the root, without registration.

Invariants: files are read with `pread`, and never mapped or locked. The memory of a task is bounded
by its batches. A record is returned whole and once, or reported as damage.
"""
