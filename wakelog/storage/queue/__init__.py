"""Consume queues: 20 bytes a message for each queue of a topic, in files of fixed length.

Read in this order:

    entries consume_queue                  the format and searches in it; reading one queue
    growing_files consume_queue_writer     the one writer
    quick_end                              where most queues end, by few reads
    crash_end                              where a queue ends after a crash of the machine
    consume_queue_ext                      extension units, read and written
"""
