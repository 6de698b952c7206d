"""The name server's cores: which broker has which topic, and the key-value configuration.

name_server                  the object that the shell drives
processors                   the request table and its handlers
route_table, topic_queues    addresses of brokers, queues of topics
kv_config, config            values and settings
decision                     instructions to the shell
"""
