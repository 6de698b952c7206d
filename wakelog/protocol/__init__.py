"""Bytes to values and back, without I/O: frames, headers, bodies, the stored message record.

Read in this order:

    codes.py command.py errors.py      the vocabulary
    frame.py -> header_codec.py        bytes of a connection <-> RemotingCommand
    ext_fields.py, headers/            extFields of each request <-> Structs
    bodies.py (body_codec.py)          JSON bodies <-> Structs, in fastjson.py's dialect
    register_broker.py                 the one body that has a compressed form
    record.py message_id.py            the record of the commit log, and its address
    properties.py java.py tags.py      Java's strings and maps, as they are on the wire and on disk
    batch.py subscription.py           batch sends; subscriptions by tag
    sys_flag.py                        bits of messages, pulls and topics
    addresses.py                       addresses in settings

Grammar of a connection (docs/formats/frame.md):

    connection = { frame }
    frame      = length:u32  serialize_type:u8  header_length:u24  header  body

Invariants: nothing here reads a clock, a socket or a file. Decoding the bytes of a peer either
returns a value or raises RemoteProtocolError.
"""
