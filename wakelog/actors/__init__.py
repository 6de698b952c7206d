"""Who runs when: thin shells around the cores, as Ray actors or in one process.

A shell holds a core, the clock, its service clients and a loop; what a message means is the core's.
`ray` is imported in this folder, and in `spark/` where actors hand over and where Ray Data reads.
"""
