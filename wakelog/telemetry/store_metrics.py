"""Metrics of the store: the log, its watermarks, and what the services do with its files.

The Broker appends and reads; Reput dispatches, Flush makes durable, AllocateMappedFile makes
segments, Retention removes them. Each says what it did; a service that is away says nothing.
"""

from wakelog.telemetry.metric_spec import BROKER, counter, gauge, histogram

SERVICES = f"{BROKER}/services"
REPUT = f"{SERVICES}/reput"
CURSOR = f"{REPUT}/cursor"
PLUGIN = REPUT + "/plugins/running/{dispatcher}"
RETENTION_SERVICE = f"{SERVICES}/retention"

# fmt: off
LOG = (
    counter("rocketmq_store_put_messages", "Messages appended to the commit log.",
            f"{BROKER}/store/put_count"),
    counter("rocketmq_store_put_bytes", "Bytes appended to the commit log.",
            f"{BROKER}/store/put_bytes"),
    counter("rocketmq_store_put_failures", "Messages that the store refused.",
            f"{BROKER}/store/put_failed_count"),
    counter("rocketmq_store_gets_found", "Reads of a queue that found messages.",
            f"{BROKER}/store/get_found_count"),
    counter("rocketmq_store_gets_missed", "Reads of a queue that found none.",
            f"{BROKER}/store/get_missed_count"),
    counter("rocketmq_store_get_messages", "Messages read for consumers.",
            f"{BROKER}/store/get_message_count"),
    counter("rocketmq_store_get_bytes", "Bytes read for consumers.",
            f"{BROKER}/store/get_message_bytes"),
    counter("rocketmq_store_gets_cold", "Reads of a queue that had to wait for the disk.",
            f"{BROKER}/store/get_cold_count"),
    gauge("rocketmq_commit_log_min_offset_bytes", "Physical offset at which the commit log begins.",
          f"{BROKER}/store/min_physical_offset"),
)

DURATIONS = (
    histogram("rocketmq_put_duration_seconds",
              "How long the puts of a turn took, from its first request to the write.",
              f"{BROKER}/durations/put_seconds"),
    histogram("rocketmq_get_duration_seconds",
              "How long reads of a queue for a consumer took, waiting for the disk included.",
              f"{BROKER}/durations/get_seconds"),
)

QUEUES = (
    gauge("rocketmq_queue_max_offset", "Queue offset at which a queue ends for consumers.",
          BROKER + "/queues/max_offset/{topic}/{queue_id}"),
    gauge("rocketmq_consumer_queue_lag_messages",
          "Messages of a queue that a group has not consumed.",
          BROKER + "/queues/lag/{group}/{topic}/{queue_id}"),
    gauge("rocketmq_consumer_oldest_unacked_seconds",
          "How long the oldest message that a group has not consumed has been stored.",
          BROKER + "/queues/oldest_seconds/{group}/{topic}"),
    gauge("rocketmq_consumer_catch_up_seconds",
          "When a group will have consumed all, going on as in the last minute; +Inf: never.",
          BROKER + "/queues/catch_up_seconds/{group}/{topic}"),
    gauge("rocketmq_queues_unmeasured",
          "Queues, queues of groups, and groups with members, too many for a scrape: left out.",
          BROKER + "/queues/left_out/{kind}"),
)

WATERMARKS = (
    gauge("rocketmq_watermark_offset_bytes",
          "Physical offset up to which the log is appended, flushed, readable or dispatched.",
          BROKER + "/watermarks/{watermark}"),
    gauge("rocketmq_dispatch_lag_bytes",
          "Bytes of the log that consumers may see and that a dispatcher has not taken in.",
          f"{BROKER}/dispatcher=builtin/watermarks/readable", f"{PLUGIN}/lag_bytes",
          minus=f"{BROKER}/dispatcher=builtin/watermarks/dispatched"),
    gauge("rocketmq_flush_lag_bytes", "Bytes of the log that are not on the disk yet.",
          f"{BROKER}/watermarks/appended", minus=f"{BROKER}/watermarks/flushed"),
)

DISPATCH = (
    counter("rocketmq_dispatched_messages", "Records of the log that were dispatched.",
            f"{CURSOR}/records_count"),
    counter("rocketmq_dispatched_bytes", "Bytes of the records that were dispatched.",
            f"{CURSOR}/records_bytes"),
    counter("rocketmq_dispatched_bulk_messages",
            "Records that the bulk scan dispatched, as when catching up.",
            f"{CURSOR}/bulk_records_count"),
    counter("rocketmq_dispatch_skipped_bytes",
            "Bytes that were gone from the log before they were dispatched.",
            f"{CURSOR}/moved_up_bytes"),
    counter("rocketmq_dispatch_size_mismatches",
            "Records skipped because two of their sizes disagree.",
            f"{CURSOR}/size_mismatches_count"),
    counter("rocketmq_dispatch_bad_stretches",
            "Damaged stretches of the log that dispatch passed over.",
            f"{CURSOR}/bad_stretches_count"),
    counter("rocketmq_dispatch_bad_bytes",
            "Bytes of the damaged stretches that dispatch passed over.",
            f"{CURSOR}/bad_bytes"),
    counter("rocketmq_dispatch_failures", "Batches after which a dispatcher had to begin anew.",
            f"{REPUT}/failures_count"),
    counter("rocketmq_dispatch_arrivals",
            "Notices that a queue has grown, for pulls that wait for it.",
            f"{REPUT}/arrivals_count"),
    histogram("rocketmq_dispatch_duration_seconds",
              "How long steps of dispatch took, each of some messages up to 8 MiB of the log.",
              f"{REPUT}/step_seconds"),
    gauge("rocketmq_dispatch_flush_lag_bytes",
          "Bytes of the log whose queues and index are not on the disk yet.",
          f"{BROKER}/watermarks/dispatched", minus=f"{REPUT}/flushed"),
    gauge("rocketmq_consume_queues", "Consume queues that Reput has open.",
          f"{REPUT}/dispatchers/consume_queue/queues_count"),
    counter("rocketmq_consume_queue_files_made", "Consume queue files that Reput began.",
            f"{REPUT}/dispatchers/consume_queue/files_made_count"),
    gauge("rocketmq_index_keys", "Keys in the index file that is being written.",
          f"{REPUT}/dispatchers/index/keys_count"),
    gauge("rocketmq_index_files", "Index files.", f"{REPUT}/dispatchers/index/files_count"),
)

PLUGINS = (
    counter("rocketmq_plugin_batches", "Batches that a dispatcher from elsewhere took in.",
            f"{PLUGIN}/batches_count"),
    counter("rocketmq_plugin_failures", "Times that a dispatcher from elsewhere raised.",
            f"{PLUGIN}/failures_count"),
    gauge("rocketmq_plugin_given_up",
          "1 once a dispatcher from elsewhere has failed too often and gets nothing more.",
          f"{PLUGIN}/given_up"),
    gauge("rocketmq_plugin_left_behind",
          "1 while retention does not wait for a dispatcher that hangs or is slow.",
          f"{PLUGIN}/left_behind"),
    gauge("rocketmq_plugin_value",
          "What a dispatcher from elsewhere, or the Parquet dispatcher, says of itself.",
          PLUGIN + "/dispatcher/{value}"),
)

FLUSH = (
    counter("rocketmq_flushes", "Syncs of the commit log by Flush.",
            f"{SERVICES}/flush/flush_count"),
    histogram("rocketmq_flush_duration_seconds", "How long syncs of the commit log by Flush took.",
              f"{SERVICES}/flush/sync_seconds"),
    counter("rocketmq_flushes_inline",
            "Syncs of the commit log that the broker did while Flush was away.",
            f"{BROKER}/service_clients/counters/flush/own_count"),
    gauge("rocketmq_flush_waiting_answers", "Answers that wait until their message is durable.",
          f"{BROKER}/flush_waiters/waiting_count"),
    counter("rocketmq_flush_waits_timed_out", "Answers given as FLUSH_DISK_TIMEOUT.",
            f"{BROKER}/flush_waiters/timed_out_count"),
)

COMMIT = (
    counter("rocketmq_committed_bytes",
            "Bytes that Commit copied from the transient pool to segments.",
            f"{SERVICES}/commit/copied_bytes"),
    counter("rocketmq_commits_inline",
            "Copies from the transient pool that the broker did while Commit was away.",
            f"{BROKER}/service_clients/counters/commit/own_count"),
    counter("rocketmq_commit_failures", "Copies from the transient pool that failed in Commit.",
            f"{SERVICES}/commit/failed_count"),
)

SEGMENTS = (
    counter("rocketmq_segments_taken", "Segments of the log that were taken into use.",
            f"{BROKER}/service_clients/counters/allocate_mapped_file/taken_count"),
    counter("rocketmq_segments_made", "Segments that AllocateMappedFile made ahead of need.",
            f"{SERVICES}/allocate_mapped_file/made_count"),
    counter("rocketmq_segments_made_inline", "Segments that the broker had to make itself.",
            f"{BROKER}/service_clients/counters/allocate_mapped_file/own_count"),
    counter("rocketmq_segment_failures", "Segments that AllocateMappedFile could not make.",
            f"{SERVICES}/allocate_mapped_file/failed_count"),
)

RETENTION = (
    gauge("rocketmq_disk_used_ratio",
          "Used part of the disk that holds the log or the queues; below 0 while it is unknown.",
          f"path=commitlog/{RETENTION_SERVICE}/log_used_percent",
          f"path=consumequeue/{RETENTION_SERVICE}/queue_used_percent", scale=0.01),
    gauge("rocketmq_disk_full", "1 while no message is taken because a disk is too full.",
          f"{RETENTION_SERVICE}/disk_full"),
    counter("rocketmq_retention_runs", "Times that segments were looked through for expired ones.",
            f"{RETENTION_SERVICE}/runs_count"),
    counter("rocketmq_segments_removed", "Segments that Retention removed.",
            f"{RETENTION_SERVICE}/removed_count"),
    counter("rocketmq_retention_held_back",
            "Runs that ended at a segment that a dispatcher still needs.",
            f"{RETENTION_SERVICE}/held_back_count"),
    counter("rocketmq_log_summed_bytes",
            "Bytes of the log whose sum was kept when they had become durable.",
            f"{RETENTION_SERVICE}/summed_bytes"),
    counter("rocketmq_log_compared_bytes",
            "Bytes of the log that were read again and held against their sums.",
            f"{RETENTION_SERVICE}/compared_bytes"),
    gauge("rocketmq_log_changed_blocks",
          "Blocks of 64 KiB that are not as they were when they were durable; kept up to 100.",
          f"{RETENTION_SERVICE}/changed_blocks_count"),
    counter("rocketmq_log_sum_failures",
            "Times that sums could not be written, or the log not be read for them.",
            f"{RETENTION_SERVICE}/sum_failures_count"),
    counter("rocketmq_retention_leased", "Runs that ended at a segment that a reader has leased.",
            f"{RETENTION_SERVICE}/leased_count"),
    gauge("rocketmq_leases",
          "Leases of readers, such as Spark, that keep segments from being removed.",
          f"{RETENTION_SERVICE}/leases/held_count"),
    gauge("rocketmq_leases_begin_bytes",
          "Physical offset from which on the log is leased, 0 if nothing is.",
          f"{RETENTION_SERVICE}/leases/begin"),
    counter("rocketmq_leases_granted", "Leases that readers were given.",
            f"{RETENTION_SERVICE}/leases/granted_count"),
    counter("rocketmq_leases_refused", "Leases that readers were not given, since too many hold.",
            f"{RETENTION_SERVICE}/leases/refused_count"),
    counter("rocketmq_leases_expired", "Leases that ended because nobody renewed them.",
            f"{RETENTION_SERVICE}/leases/expired_count"),
    counter("rocketmq_leases_lost", "Leases that ended because a disk was too full.",
            f"{RETENTION_SERVICE}/leases/lost_count"),
)

REPLICATION = (
    gauge("rocketmq_slaves", "Slaves that have reported soundly and are connected.",
          f"{BROKER}/slaves/slaves_count"),
    gauge("rocketmq_slave_behind_bytes",
          "Durable bytes of the log that the slowest of them has not acknowledged.",
          f"{BROKER}/slaves/behind_bytes_max"),
    counter("rocketmq_slave_sent_bytes", "Bytes of the log that were sent to slaves.",
            f"{BROKER}/slaves/sent_bytes"),
    counter("rocketmq_slaves_refused", "Connections of slaves that reported what cannot be true.",
            f"{BROKER}/slaves/refused_count"),
    gauge("rocketmq_replica_waiting_answers", "Answers that wait until a slave has their message.",
          f"{BROKER}/replica_waiters/waiting_count"),
    counter("rocketmq_replica_waits_timed_out", "Answers given as FLUSH_SLAVE_TIMEOUT.",
            f"{BROKER}/replica_waiters/timed_out_count"),
)

FOLLOWING = (
    gauge("rocketmq_following", "1 while a slave is connected to its master.",
          f"{BROKER}/following/is_connected"),
    counter("rocketmq_followed_bytes", "Bytes that a slave received from its masters.",
            f"{BROKER}/following/received_bytes"),
    counter("rocketmq_tables_copied", "Tables that a slave took over from its master.",
            f"{BROKER}/following/tables_copied_count"),
)

ELECTION = (
    gauge("rocketmq_leads", "1 while a replica of a group with a register takes messages.",
          f"{BROKER}/election/leads"),
    gauge("rocketmq_election_epoch", "The epoch of this master, 0 on a follower.",
          f"{BROKER}/election/epoch"),
    gauge("rocketmq_in_sync_replicas", "Replicas that a message waits for; 0 on a follower.",
          f"{BROKER}/election/in_sync_count"),
    gauge("rocketmq_members", "Followers that are connected here and acknowledge the log.",
          f"{BROKER}/election/members_count"),
    gauge("rocketmq_member_behind_bytes",
          "Bytes of the log that the slowest of them has not acknowledged; 0 on a follower.",
          f"{BROKER}/election/behind_bytes_max"),
    counter("rocketmq_members_refused", "Connections of followers that were refused, with a line.",
            f"{BROKER}/election/refused_count"),
    gauge("rocketmq_confirmed_bytes",
          "Physical offset up to which all in-sync replicas have the log, as far as is known here.",
          f"{BROKER}/election/confirmed"),
    counter("rocketmq_leader_changes", "Times that this replica became master, or follower again.",
            f"{BROKER}/election/role_changes_count"),
    counter("rocketmq_log_cuts", "Times that the log was cut to that of a new master.",
            f"{BROKER}/election/cuts_count"),
    counter("rocketmq_register_calls_failed", "Calls of the register without an answer.",
            f"{BROKER}/election/register_failures_count"),
)
# fmt: on
