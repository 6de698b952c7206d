"""What a request means to a broker: plain objects, no clock, no socket, no thread.

Read in this order:

    effects decision error_response         what a request's work yields, and what it ends with
    broker state                            the object that the shell drives; what is shared
    processors/                             a row for each request code, and what it means
    lane_table config config_file names     settings, and the names that requests give
    topics subscription_groups              configuration that is kept
    consumer_offsets membership lock_table  groups: how far, who, and who alone
    copy_on_write_map changes table_limits  how these tables are copied, saved and bounded
    heartbeats consumer_notices             what members say, and what they are sent
    filter_servers registration             filter servers; the name servers
    held_requests pull_hold slow_readers    pulls that wait, and those that are barred
    offset_waiters read_after_write         responses that wait for a watermark
    schedule delayed_delivery               delayed messages
    transactions transaction_check          half messages, and when to ask about them
    half_queue half_copies half_checks      how a round of that check goes
    broker_stats store_stats                counts by name, and of the store
    traffic_columns scrape_values           on their way to metrics
    queue_progress seen_queues              how far queues and groups are, at a scrape
    health_values trouble                   what operators are shown
    housekeeping drain                      periodic tasks; the end before a stop
    access/ replication/                    who may ask; the log in another store
"""
