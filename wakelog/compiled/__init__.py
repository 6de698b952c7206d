"""The compiled twin of what runs for each message, in C by Python's stable ABI, and its loader.

    build.py     makes the library from the C sources beside it, with whatever C compiler is there
    source.py    tells whether the library is of the sources as they are
    library.py   loads it, or says why plain Python runs instead
    columns.py   the functions over columns of records, as types; layout.py and fields.py have the
                 numbers of what they fill
    module.c, column_functions.c, arguments.c     the functions as Python calls them
    *.c          what they do: bytes and numbers in, bytes and numbers out. encode_list.c alone
                 reads Python's objects: the messages of a list

The callers are in `protocol`, `storage`, `client` and `spark`. Each has a twin in plain Python that
gives the same; without the library that one runs.

Invariants: nothing here knows topics, permissions or the store. The C sources include no header of
Python and keep no state between calls. A library of another source is never loaded.
"""
