"""Compiled loops that read much of the log at once.

Read in this order: `layout` names the columns. `columns` owns them. `record_kernel` finds sound
records. `scan_kernel` fills the columns, with `integers` and `text_kernel`. `entry_kernel` makes
queue and index entries from them. `window_columns` does all that for long stretches through a small
buffer. `crc_kernel` checks bodies. `compilation` says how functions are compiled, and
`instructions` adds two processor instructions. `loader` compiles everything in the background, and
`kernels` is the type that callers use. `wakelog.storage.log.scan` is the plain way to the same
results.
"""
