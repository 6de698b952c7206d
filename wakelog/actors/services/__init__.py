"""The services of a broker: one file each, with the service's shell and the Broker's client for it.

Read in this order: `table` (one row a service), `session` (what a service holds while it is
attached), then any service. `broker_services` makes the clients of one Broker. `added_services` and
`plugin_threads` run what other packages add.
"""
