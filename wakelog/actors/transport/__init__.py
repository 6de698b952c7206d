"""How the processes of one broker reach each other: what the Broker and its services both use.

Read `service_plan` (what a process is started with) and `calls` (method calls to a service). Then
`shared_watermarks` and `notifications`: progress on one node. The rest are small tools:

    batching timer clocks                   one run at a time; one call outstanding; clocks
    descriptors process_death               what the kernel hands over, and what it reports
    channel_actor                           a server's answers to clients of the same Ray
    free_memory full_collections            memory of past peaks; cycles among objects
    stop_limits                             how long the parts of a stop may take
"""
