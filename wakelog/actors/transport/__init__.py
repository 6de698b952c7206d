"""How the processes of one broker reach each other: the ends that Broker and services share.

Read in this order: `service_plan` (what a process is started with), `service_client` (calls, and
keeping a service attached), `shared_watermarks` and `notifications` (progress on one node),
`batching`, `descriptors`, `clocks`.
"""
