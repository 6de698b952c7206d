"""Replication: the log of a master in the store of a slave.

The modules are cores, without socket and clock: `shipping` is the master's end of one connection,
and `following` the slave's. The whole is in docs/replication.md.
"""
