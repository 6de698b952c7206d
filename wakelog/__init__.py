"""A message log and broker on Ray actors, a drop-in for Apache RocketMQ 4.9.3.

A message passes the folders in this order:

network               carries frames
protocol              turns them into values
broker, nameserver    decide what they mean
storage               appends and reads
dispatchers           derive queues and index
actors                run each of these

Invariants: importing this package starts nothing and imports none of the folders.
"""
