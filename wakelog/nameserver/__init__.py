"""The name server's cores: which broker has which topic, and the key-value configuration.

Read in this order: ``route_table``, ``kv_config``, ``name_server`` (request code to processor).
"""
