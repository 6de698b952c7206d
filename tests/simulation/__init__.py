"""The store on a simulated disk: every crash, every failed call, seeded and replayable.

Read in this order: `journal` (what happens to a disk), `disk` (the file system that notes it),
`images` (what a crash may leave of it), `machine` (one broker's store in one thread), `client`
(what a client was told), `oracle` (what must hold afterwards), `workloads` (what is done), `trial`
(one workload, all its crashes), `campaign` (many trials), `mutants` (is any of this any good).
"""
