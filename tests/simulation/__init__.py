"""The store on a simulated disk: every crash, every failed call, seeded and replayable.

Read in this order:

    journal           what happens to a disk
    disk faults       the file system that records it, and fails
    images            what a crash may leave of it
    machine client    one broker's store in one thread; the responses that clients got
    oracle            what must hold afterwards
    workloads         sequences of steps
    transactions      half messages, their ends and the check
    trial             one workload with all its crashes
    fault_trial       one failing call
    store_accidents   second brokers, changed bits
    campaign blocks   many trials, in several processes
    mutants           mistakes that the trials must find
"""
