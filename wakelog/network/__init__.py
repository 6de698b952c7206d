"""The TCP server: from bytes of a connection to a processor, and from its answer back to bytes.

Read in this order: ``limits`` (every bound, with its reason), ``lanes`` (where frames wait),
``lane_table`` (which lanes a broker and a name server have), ``turn`` (one turn of the loop:
drain, end of turn, answer), ``connection`` (one socket), ``idle`` and ``connection_table`` (who
may stay), ``loop_lag`` (how late the loop is), ``server`` (ports, start, stop).

    data_received -> FrameDecoder -> lanes -> handler.process -> end_of_turn -> one write

What a request means is the handler's business: a Broker or a NameServer behind a shell.
"""
