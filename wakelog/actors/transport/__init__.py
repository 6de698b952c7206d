"""How the processes of one broker reach each other: what the Broker and its services both use.

Read in this order: `service_plan` (what a process is started with), `calls` (method calls to a
service), `shared_watermarks` and `notifications` (progress on one node), `descriptors`, then the
small tools `batching`, `timer`, `clocks` and `process_death`.
"""
