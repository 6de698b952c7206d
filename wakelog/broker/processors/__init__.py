"""What each request code means: a module for each subject, and ``table`` with a row for each code.

send, send_run            a producer sends           send_back         a consumer sends back
send_check, body_limits   what is refused            transactions      a producer ends one
pull, pull_filter         a consumer pulls           query             messages by key and id
offsets, consume_queue    positions and entries      topics, groups    their configuration
clients, locks            heartbeats, queue locks    config            the broker's settings
client_calls, reply       questions to clients       statistics        of the broker, and of
accounts                  access control             consume_stats     groups of consumers
"""
