"""Consume queues: per queue of a topic, 20 bytes a message, in files of fixed length.

Read in this order: `consume_queue` (the format and reading), `consume_queue_writer` (the one
writer), `consume_queue_ext` (extension units), `consume_queue_ext_writer`.
"""
