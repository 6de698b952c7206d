"""Frames over connections, in both directions: the client that connects, the server that accepts.

Read in this order: ``peer`` (requests and their responses in both directions, without sockets),
``connection`` (one socket), ``client`` (the end that connects), ``server`` (the end that accepts).
The only caller of a client has a ``direct_waiter``.
The server has these parts:

    limits             every bound, with its reason
    tls_gate           with or without TLS
    handshake_line     how many handshakes may begin
    activity           when a connection did what, and why it has to end
    connection_table   which connections may open
    lanes              where requests wait
    turn               one turn of the loop: process requests, end the turn, send responses
    handler, request   what a Broker or a NameServer implements: it knows what requests mean
    loop_lag           how late the loop is
    busy_poll          how long it stays awake

    data_received -> Peer -> lanes -> handler.process -> end_of_turn -> one write
"""
