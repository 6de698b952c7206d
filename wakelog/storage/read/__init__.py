"""Read a store: what a pull, a look-up and a query get.

Read in this order: ``reader`` (messages of one queue, and every status), ``readable`` (how far a
queue may be read), ``frames`` (records from the log with few calls), ``query`` (by place, key and
time), ``store_readers`` (who may use which descriptors).
"""
