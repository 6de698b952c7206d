"""The small files of a store: what is known to be durable, who owns it, and its JSON tables.

Each module is one kind of file, in the store's root or in `config/`. Read in this order:

    marks checkpoint                    how the store was left; both are 4.9.3's
    slot_file -> watermark dispatched   how far log, queues and index are durable
    sum_file -> sum_keeper              CRCs of the durable log, made and compared
    store_lock start_guard              keep other brokers out
    store_identity store_links          which broker owns the store; no link leads out of it
    deleted_topics                      whose records get no queue entry
    config_files                        topics, groups, offsets
"""
