"""Frames over connections, in both directions: the client that connects, the server that accepts.

Read in this order: ``peer`` (requests and their responses in both directions, without sockets),
``connection`` (one socket), ``client`` (the end that connects), ``server`` (the end that accepts).
The server has these parts:

    limits             every bound, with its reason
    tls_gate           with or without TLS
    handshake_line     how many handshakes may begin
    activity           when a connection did what, and why it has to end
    connection_table   which connections may open
    lanes              where requests wait
    turn               one turn of the loop: process requests, write, send responses
    turn_statistics    what the turns have done
    handler, request   what a Broker or a NameServer implements: it knows what requests mean
    driver             carries on requests that cannot be answered at once
    time_share         one kind of work stops when it has had its share of the loop
    rests              connections of one-way messages are read once a millisecond
    refusals           the responses to what is refused or has failed
    loop_lag           how late the loop is
    busy_poll          how long it stays awake

    data_received -> Peer -> lanes -> handler.process -> write -> one write -> end_of_turn
    data_received -> handler's answer_lone_send -> one write -> end_of_turn

Beside them:

    direct_waiter blocking_client               the only caller of a client; one with threads
    deadlines background errors                 of both ends
    bound_ports local_socket                    how a server is reached by TCP, and on its host
    call_channels call_link call_transport      connections by calls of an actor
    signing audit_line                          signed requests; the audit log's line of each
    tls tls_properties netty_keys old_keys      the settings, in words of 4.9.3 too
    self_signed certificate_changes certificate_dates
"""
