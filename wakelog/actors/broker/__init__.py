"""The Broker: the process that serves clients and writes the commit log.

Read in this order: `service` (start, stop, and what service clients report), `requests` (the way of
a request), `log_progress`, then what they use. `actor` is the Ray actor around the service, and
`acceptor` listens for slaves and members.
"""
