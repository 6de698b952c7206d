"""The decoding core: bytes of a segment in, Arrow record batches and damage out.

    record_walk.py              a range of a segment -> sound records, as columns of numbers
    bodiless_walk.py            the same without bodies, for columns that need none
    wanted.py                   which of them a query is about
    fields.py row_kernel.py     compiled loops over what is wanted
    rows.py                     these -> record batches with a given schema
    end_kernel.py               the same walk, to find where a log ends

Invariants: no Python object for a message, but for compressed bodies and text that is no UTF-8;
`record_walk` does not import numba, what it is given is compiled.
"""
