"""The name server's cores: which broker has which topic, and the key-value configuration.

Read in this order: ``name_server`` (the object that the shell drives), ``processors`` (request
code to handler), ``route_table`` (which broker is where) with ``topic_queues`` (which topic has
which queues), then ``kv_config`` and ``config``.
"""
