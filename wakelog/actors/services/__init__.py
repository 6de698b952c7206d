"""The services of a broker: one file each, with the service and the Broker's client for it.

To add one, write a core, a file here, and a row in `table`. Read `service` (the base of what runs
in a service's process) and `client` (the base of the Broker's end), then any service.
`broker_services` makes the clients of one Broker. `added_services` and `plugin_threads` run what
other packages add.
"""
