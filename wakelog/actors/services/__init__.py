"""The services of a broker: one file each, with the service and the Broker's client for it.

To add one, write a core, a file here, and a row in `table`. Read `session` and `service` (what a
service holds while it is attached, and its base class) and `client` (the Broker's end). Then read
any service. `broker_services` makes the clients of one Broker. `added_services` and
`plugin_threads` run what other packages add.
"""
