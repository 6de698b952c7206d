"""Decodes records: bytes of a segment in, Arrow record batches and damage out.

    record_walk.py     a range of a segment -> sound records, as columns of numbers
    bodiless_walk.py   the same without bodies, for queries that need none
    wanted.py          which of the records a query selects
    functions.py       the loops of these: compiled, or those of plain_columns.py
    rows.py            the columns -> record batches with a given schema
    arrow_types.py     the schema of such batches without Spark

Invariants: no Python object for a message, except for compressed bodies, SQL92 filters and text
that is not UTF-8. In a worker without the compiled library, plain Python fills the columns.
"""
