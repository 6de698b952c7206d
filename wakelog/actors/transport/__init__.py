"""How the processes of one broker reach each other: what the Broker and its services both use.

Read `service_plan` (what a process is started with) and `calls` (method calls to a service). Then
`shared_watermarks` and `notifications`: progress on one node. The rest are small tools.
"""
