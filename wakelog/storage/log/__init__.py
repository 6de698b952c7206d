"""The commit log: segments, the records in them, and what appends, commits, flushes and allocates.

Read in this order:

    mapped_file -> mapped_file_queue        one fixed-size file; files in sequence
    append queue_offsets -> commit_log      where a record goes; the single writer
    encoded_batch                           a long batch, encoded before its place is known
    multi_dispatch                          which further queues it goes to
    commit_log_reader                       the same bytes, from any process
    allocate reservation                    files and blocks ahead of the writer
    flush transient_pool                    what happens beside the writer
    record_check record_walk                from bytes to sound records
    scan -> dispatch_request                what a dispatcher gets
"""
