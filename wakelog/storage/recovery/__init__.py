"""Bring a store that was left, cleanly or not, to a state that can be written.

Read in this order: ``steps`` (what happens, one after the other), ``segments`` (load the log's
files), ``plan`` (choose where to begin), ``search`` (begin there, or further below), ``log_end``
(find where the log ends), ``queue_ends`` (what the log says about its queues),
``queue_repair`` (cut the queues), ``quarantine`` (keep aside what is cut).
"""
