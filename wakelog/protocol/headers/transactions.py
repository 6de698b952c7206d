"""Headers of requests about transactions."""

from wakelog.protocol.ext_fields import Header, Int32, Int64


class EndTransactionRequestHeader(Header, frozen=True, kw_only=True):
    """37: a producer commits or rolls back a half message, or does not know yet.

    tran_state_table_offset: queue offset of the half message; commit_log_offset: its physical one.
    commit_or_rollback: a transaction type of ``sys_flag``.
    """

    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32
    from_transaction_check: bool = False
    msg_id: str | None = None
    transaction_id: str | None = None


class CheckTransactionStateRequestHeader(Header, frozen=True, kw_only=True):
    """39: a broker asks a producer what became of a half message; the answer is a 37."""

    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


class ResumeCheckHalfMessageRequestHeader(Header, frozen=True, kw_only=True):
    """323: have a half message checked again that was given up."""

    msg_id: str | None = None
