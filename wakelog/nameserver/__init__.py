"""The name server's cores: which broker has which topic, and the key-value configuration.

name_server                  the object that the shell drives
processors                   the request table and its handlers
lane_table                   where requests wait
route_table, topic_queues    addresses of brokers, queues of topics
encoded_routes               bodies of routes that were asked for
absent_topic                 why a topic has no route
kv_config, config            values and settings
decision                     instructions to the shell
"""
