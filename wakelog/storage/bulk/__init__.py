"""Reading much of the log at once, in compiled code.

Read in this order: `layout` names the columns; `columns` holds them; `scan_kernel` fills them from
the log's bytes; `entry_kernel` makes queue and index entries of them; `loader` compiles in the
background. The plain way, which gives the same results, is `wakelog.storage.scan`.
"""
