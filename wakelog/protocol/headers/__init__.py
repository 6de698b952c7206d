"""The header of each request and response that wakelog reads or writes, grouped by subject.

    send.py pull.py offsets.py clients.py    producers and consumers
    accounts.py                              accounts of access control
    admin.py                                 topics, queues and groups, for operators
    name_server.py                           routes, brokers, key-value configuration

An attribute is the Java field in snake_case. The wire has the Java name, or a letter in
SEND_MESSAGE_V2. A field without a default is one that 4.9.3 marks @CFNotNull and uses for every
such request: a request without it is refused. A marked field that 4.9.3 uses only sometimes may be
absent here too. Requests with the same fields share a Struct; its docstring lists their codes.

Source: org.apache.rocketmq.common.protocol.header.* (4.9.3)
"""
