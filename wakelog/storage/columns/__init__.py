"""Columns of much of the log at once, which the compiled library fills.

Read in this order: `wakelog.compiled.layout` names the columns. `scan_columns` owns them, and the
queue and index entries that are made of them. `window_columns` does that for long stretches through
a small buffer. The functions are those of `wakelog.compiled.columns`. `wakelog.storage.log.scan` is
the plain way to the same results, which runs where the library is missing.
"""
