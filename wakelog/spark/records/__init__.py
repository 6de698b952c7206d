"""Decodes records: bytes of a segment in, Arrow record batches and damage out.

    record_walk.py     a range of a segment -> sound records, as columns of numbers
    bodiless_walk.py   the same without bodies, for queries that need none
    wanted.py          which of the records a query selects
    walk_kernel.py     compiled loops of these three
    row_kernel.py      compiled loops that fill Arrow buffers
    rows.py            the columns -> record batches with a given schema
    arrow_types.py     the schema of such batches without Spark

Invariants: no Python object for a message, except for compressed bodies, SQL92 filters and text
that is not UTF-8. A walk imports numba when it is made.
"""
