"""What each request code means: a module for each subject, and ``table`` with a row for each code.

send, send_check          a producer sends           send_back         a consumer sends back
pull, pull_filter         a consumer pulls           query             messages by key and id
offsets, consume_queue    positions and entries      topics, groups    their configuration
clients, locks            heartbeats, queue locks    config            the broker's settings
accounts                  access control
"""
