"""Reading a store: what a pull, a look-up and a query get.

Read in this order:

    reader                messages of one queue, with a status for every case
    batch_limits          when a batch of records is full
    readable              how far a queue may be read
    recent                queue entries that no file has yet
    frames stretches      records from the log with few calls, by Python and by C
    query                 by place, key and time
    store_readers         sets of descriptors, one for each caller at a time
    read_ahead_windows    what to have the disk read ahead
"""
