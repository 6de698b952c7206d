"""Which process does what, and when: thin shells around the cores, as Ray actors or in one process.

A shell holds a core, the clock, clients of other services and a loop. The core decides what a
message means. `ray` is imported in this folder, in `ray_data.py`, and in `spark/` where actors hand
over and where Ray Data reads.
"""
