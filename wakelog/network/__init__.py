"""Peers: frames over connections in both directions, and the two ends that open connections.

Read in this order: ``peer`` (requests and their responses in both directions, without sockets),
``connection`` (one socket), ``client`` (the end that connects), ``server`` (the end that accepts).
The server's parts: ``limits`` (every bound, with its reason), ``lanes`` (where requests wait),
``turn`` (one turn of the loop: drain, end of turn, responses), ``connection_table`` (which
connections may stay), ``tls_gate`` (with or without TLS), ``loop_lag`` and ``busy_poll`` (the
loop's time). ``handler`` is what a Broker or a NameServer implements: it knows what requests mean.

    data_received -> Peer -> lanes -> handler.process -> end_of_turn -> one write
"""
