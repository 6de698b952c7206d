"""The commit log: segments, the records in them, who appends, commits, flushes and allocates."""
