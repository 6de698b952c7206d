"""A message log and broker on Ray actors, a drop-in for Apache RocketMQ 4.9.3.

The flow of a message is the order of the folders: `network` carries frames,
`protocol` turns them into values, `broker` and `nameserver` decide what they mean, `storage`
appends and reads, `dispatchers` derive queues and indexes, `actors` run each of these.

Invariants: importing this package starts nothing and imports none of the folders.
"""
