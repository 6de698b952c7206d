"""The Broker: the process that serves clients and writes the commit log.

Read in this order:

    hosted actor                            a broker in whatever role; the Ray actor around it
    wiring service                          its parts and how they connect; its start and its stop
    requests work_pool filter_places        the way of a request, and of what it waits for
    log_progress own_messages               how far the log reaches; what a broker puts by itself
    resources opening tables_at_start       what a start takes, opens and reads
    recovery_lines state_log request_times  what it says of itself
    name_servers account_files filter_file  routes, accounts and filters
    client_rates snapshots time_slice       consumers' rates; the log for programs; the processor
    acceptor log_connection                 connections over which a log goes
    slave_server ha_client                  a master and a slave of 4.9.3's kind
    replica run member elector              a replica of a group whose register decides on roles
    member_connections member_server replica_fetcher    the log between its members
"""
