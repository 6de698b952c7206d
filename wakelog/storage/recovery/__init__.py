"""Recovery: bring a store to a state that can be written, whether its broker stopped or crashed.

`store_parts.open_parts` takes the lock first. Then `steps.recover` does these steps. A crash during
any of them only makes the next start repeat it.

    step  module            needs                          leaves behind
    1     segments          the log's directories          segments of full length, gaps known
    2     watermark_trust   watermark, lock, checkpoint    how far the log is known to be durable
    3     queues            the queue files                each queue ends at its last sound entry
    4     search            the results of 1 to 3          where record checks begin
    5     log_end           records from there on          the log's end, damage, queue offsets
    6     quarantine        what lies after the end        a copy; then it is zeroed or removed
    7     steps             the new end                    synced segments, a watermark at the end
    8     queues            the new end                    no queue entry of a record that is gone
    9     steps             checkpoint, index files        only index files that can be trusted
    10    steps             all of the above               where dispatch begins again

`cut` shortens a log of which another one has less. `docs/recovery.md` gives the reasons. Read
`steps` first.
"""
