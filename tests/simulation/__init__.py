"""The store on a simulated disk: every crash, every failed call, seeded and replayable.

Read in this order: `journal` (what happens to a disk), `disk` and `faults` (the file system that
notes it, and fails), `images` (what a crash may leave of it), `machine` (one broker's store in one
thread), `client` (what clients were told), `oracle` (what must hold afterwards), `workloads` (what
is done), `trial` (one workload, all its crashes), `fault_trial` (one failing call), `encounters`
(second brokers, changed bits), `campaign` (many trials), `mutants` (would a mistake be noticed?).
"""
