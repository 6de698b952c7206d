"""Replication: the log of a master in the store of a slave.

The modules are cores, without socket and clock. The whole is in docs/replication.md and
docs/failover.md. Read in this order:

    shipping replicas                       the master's end of one slave's connection; of all
    ha_client_state master table_sync       the slave's end, its master, and its tables
    group_state election takeover           which replica leads
    epochs in_sync                          who wrote what, and who counts
    member_shipping replica_fetch           both ends of a connection between replicas
    member_proof whole_records              the key they share; what comes, record by record
    known_group                             what operators are shown
"""
