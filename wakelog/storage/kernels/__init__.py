"""Reading much of the log at once, in compiled code.

Read in this order: `layout` names the columns; `columns` holds them; `scan_kernel` fills them from
the log's bytes, with `integers` and `text_kernel` for what it meets there; `entry_kernel` makes
queue and index entries of them; `window_columns` does it for long stretches through a buffer that
a cache holds; `crc_kernel` checks bodies. `compilation` says how all of these are compiled, and
`instructions` and `vectors` what they have of the processor beside what numba has words for;
`kernels` names what is called from outside, and `loader` compiles it in the background. The plain
way, which gives the same results, is `wakelog.storage.log.scan`.
"""
