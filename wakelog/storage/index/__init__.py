"""The index: from a message's keys to its places in the log.

Read in this order:

    index_file       the format of one file, and a search in it
    index_append     put keys into one file
    index_service    all files: names, removal; the Broker's queries
    index_writer     all files: Reput's side
    index_block      a long chain, read a block at a time
    index_repair     cut a file back after a crash
"""
