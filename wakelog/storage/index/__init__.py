"""The index: from a message's keys to its places in the log.

Read in this order: `index_file` has the format and the search in one file; `index_append` puts
keys into one; `index_writer` and `index_service` are the two sides of all files, Reput's and the
Broker's; `index_repair` is for what a crash left.
"""
