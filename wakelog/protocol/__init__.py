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
    sys_flag.py compression.py         bits of messages, pulls and topics; compressed bodies
    names.py versions.py               names of topics and groups, of RocketMQ's versions
    delay_levels.py addresses.py       delays and addresses in settings
    send_run.py run_responses.py       plain sends that come together, and their responses
    plain_run.py compiled_run.py       how Python reads such a run, and how C does
    heartbeat.py steps.py              long bodies, in steps
    ha_frames.py member_frames.py      between a master and its slaves; between replicas
    signed_content.py                  what a signature covers

Grammar of a connection (docs/formats/frame.md):

    connection = { frame }
    frame      = length:u32  serialize_type:u8  header_length:u24  header  body

Invariants: nothing here reads a clock, a socket or a file. Decoding the bytes of a peer either
returns a value or raises RemoteProtocolError.
"""
