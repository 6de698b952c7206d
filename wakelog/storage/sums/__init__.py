"""Sums of what the log held when it was durable: what tells a changed byte from one as written.

A record's own CRC covers its body; a changed byte of a topic, a property or a queue offset looks
like another message. `sum_file` is the format, `cover` makes sums, `compare` finds what differs.
"""
