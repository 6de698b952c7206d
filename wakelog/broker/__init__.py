"""What a request means to a broker: plain objects, no clock, no socket, no thread.

Read in this order: ``decision`` (what a core may answer), ``broker`` (the object that the shell
drives), ``processors`` (request code to handler and lane), then a processor (``send``,
``pull``, ...) with the tables it uses (``topics``, ``membership``, ``consumer_offsets``, ...).
"""
