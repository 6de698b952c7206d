"""Reading much of the log at once, in compiled code.

Read in this order: `layout` names the columns; `columns` holds them; `scan_kernel` fills them from
the log's bytes; `entry_kernel` makes queue and index entries of them; `window_columns` does it for
long stretches through a buffer that a cache holds; `crc_kernel` checks bodies, with the help of
`instructions` of the processor; `kernels` names all that is compiled, and `loader` compiles it in
the background. The plain way, which gives the same results, is `wakelog.storage.scan`.
"""
