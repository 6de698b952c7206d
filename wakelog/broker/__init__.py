"""What a request means to a broker: plain objects, no clock, no socket, no thread.

Read in this order: ``decision`` (responses that wait, instructions), ``broker`` (the object that
the shell drives), ``processors/table`` (a row for each request code). Then read a processor
(``send``, ``pull``, ...) with the tables it uses (``topics``, ``membership``, ``consumer_offsets``,
...).
"""
