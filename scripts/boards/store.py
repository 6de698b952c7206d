"""The store: how fast the log grows, becomes durable and is dispatched, and what is kept."""

from scripts.boards.grafana import (
    BYTES,
    BYTES_PER_SECOND,
    COUNT,
    MESSAGES_PER_SECOND,
    OF_BROKER,
    RATIO,
    REQUESTS_PER_SECOND,
    SECONDS,
    Board,
    graph,
    quantiles,
    summed,
)

LOG = (
    graph(
        "Behind the log's end",
        "Bytes of the log that are not in the queues, or not on the disk yet.",
        BYTES,
        (
            f"max by (broker, dispatcher) (rocketmq_dispatch_lag_bytes{{{OF_BROKER}}})",
            "{{broker}} dispatch {{dispatcher}}",
        ),
        (f"max by (broker) (rocketmq_flush_lag_bytes{{{OF_BROKER}}})", "{{broker}} flush"),
    ),
    graph(
        "Dispatched",
        "Messages dispatched in a second, and those of them that the bulk scan took.",
        MESSAGES_PER_SECOND,
        summed("rocketmq_dispatched_messages_total", "all"),
        summed("rocketmq_dispatched_bulk_messages_total", "bulk"),
    ),
    graph(
        "Syncs",
        "Syncs of the log in a second: by Flush, and by the broker while Flush was away.",
        COUNT,
        summed("rocketmq_flushes_total", "Flush"),
        summed("rocketmq_flushes_inline_total", "itself"),
    ),
    graph(
        "Sync time",
        "How long 99 in 100, and half of the syncs of the log took at most.",
        SECONDS,
        *quantiles("rocketmq_flush_duration_seconds", 0.99, 0.5),
    ),
    graph(
        "Dispatch time",
        "How long 99 in 100, and half of the steps of dispatch took at most.",
        SECONDS,
        *quantiles("rocketmq_dispatch_duration_seconds", 0.99, 0.5),
    ),
    graph(
        "Disks",
        "Used part of the disk under the log and under the queues.",
        RATIO,
        (f"max by (broker, path) (rocketmq_disk_used_ratio{{{OF_BROKER}}})", "{{broker}} {{path}}"),
    ),
    graph(
        "Cold reads",
        "Reads of a queue in a second that had to wait for the disk.",
        REQUESTS_PER_SECOND,
        summed("rocketmq_store_gets_cold_total"),
    ),
    graph(
        "Segments",
        "Segments taken into use, made by the broker itself, and removed, in the time shown.",
        COUNT,
        (f"sum by (broker) (rocketmq_segments_taken_total{{{OF_BROKER}}})", "{{broker}} taken"),
        (
            f"sum by (broker) (rocketmq_segments_made_inline_total{{{OF_BROKER}}})",
            "{{broker}} made itself",
        ),
        (f"sum by (broker) (rocketmq_segments_removed_total{{{OF_BROKER}}})", "{{broker}} removed"),
    ),
    graph(
        "Store failures",
        "Work of the store that failed in a second, and is tried again.",
        REQUESTS_PER_SECOND,
        summed("rocketmq_commit_failures_total", "commit"),
        summed("rocketmq_dispatch_failures_total", "dispatch"),
        summed("rocketmq_segment_failures_total", "segment"),
        summed("rocketmq_log_sum_failures_total", "sums"),
        summed("rocketmq_flush_waits_timed_out_total", "flush too late"),
        summed("rocketmq_leases_refused_total", "snapshot refused"),
    ),
    graph(
        "Transient pool",
        "Bytes copied from the pool to the log in a second, by Commit and by the broker.",
        BYTES_PER_SECOND,
        summed("rocketmq_committed_bytes_total"),
    ),
)

TIMES = (
    graph(
        "Put time",
        "How long half, 99 and 99.9 in 100 puts of a turn took at most.",
        SECONDS,
        *quantiles("rocketmq_put_duration_seconds", 0.5, 0.99, 0.999),
    ),
    graph(
        "Get time",
        "How long half, 99 and 99.9 in 100 reads of a queue took at most.",
        SECONDS,
        *quantiles("rocketmq_get_duration_seconds", 0.5, 0.99, 0.999),
    ),
    graph(
        "Waiting for the disk",
        "Answers that wait until their message is durable, and requests that wait for a thread.",
        COUNT,
        (f"sum by (broker) (rocketmq_flush_waiting_answers{{{OF_BROKER}}})", "{{broker}} sync"),
        (f"sum by (broker) (rocketmq_pool_waiting_requests{{{OF_BROKER}}})", "{{broker}} thread"),
    ),
    graph(
        "Watermarks",
        "Bytes a second by which the log grows, becomes durable, and is dispatched.",
        BYTES_PER_SECOND,
        (
            "sum by (broker, watermark) "
            f"(deriv(rocketmq_watermark_offset_bytes{{{OF_BROKER}}}[$__rate_interval]))",
            "{{broker}} {{watermark}}",
        ),
    ),
)

RETENTION = (
    graph(
        "Log",
        "Bytes between the begin and the end of the log.",
        BYTES,
        (
            "max by (broker) "
            f'(rocketmq_watermark_offset_bytes{{{OF_BROKER},watermark="appended"}}) '
            f"- max by (broker) (rocketmq_commit_log_min_offset_bytes{{{OF_BROKER}}})",
            "{{broker}}",
        ),
    ),
    graph(
        "Sums",
        "Bytes a second whose sum was kept, and that were read again and compared.",
        BYTES_PER_SECOND,
        summed("rocketmq_log_summed_bytes_total", "kept"),
        summed("rocketmq_log_compared_bytes_total", "compared"),
    ),
    graph(
        "Damage",
        "Blocks that are not as they were written, and damaged stretches that were passed over.",
        COUNT,
        (f"max by (broker) (rocketmq_log_changed_blocks{{{OF_BROKER}}})", "{{broker}} blocks"),
        summed("rocketmq_dispatch_bad_stretches_total", "stretches"),
    ),
    graph(
        "Held back",
        "Runs of Retention a second that ended at what a dispatcher needs, or a reader leased.",
        REQUESTS_PER_SECOND,
        summed("rocketmq_retention_held_back_total", "needed"),
        summed("rocketmq_retention_leased_total", "leased"),
    ),
    graph(
        "Leases",
        "Leases of readers that keep segments from being removed.",
        COUNT,
        (f"sum by (broker) (rocketmq_leases{{{OF_BROKER}}})", "{{broker}}"),
    ),
    graph(
        "Index",
        "Index files, and consume queues that are open.",
        COUNT,
        (f"sum by (broker) (rocketmq_index_files{{{OF_BROKER}}})", "{{broker}} index files"),
        (f"sum by (broker) (rocketmq_consume_queues{{{OF_BROKER}}})", "{{broker}} queues"),
    ),
)

BOARD = Board(
    name="store",
    title="wakelog store",
    sections={"Times": TIMES, "Log": LOG, "Retention": RETENTION},
)
