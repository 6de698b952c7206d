"""Repairs a damaged store without deleting anything, and verifies it again.

    1  verify; end here if no finding is of a kind that a repair can mend
    2  queues and index move aside, because recovery removes what it does not trust of them
    3  recovery cuts the log after its last sound record and keeps the cut bytes
    4  queues and index are rebuilt and put in place
    5  verify

If recovery refuses the store, step 2 is undone.
"""

from typing import Final, NamedTuple

from wakelog.audit.operator import SILENT, Move, Operator
from wakelog.audit.rebuild import now_ms
from wakelog.audit.replacement import rebuild_in_place, rebuild_paths, swap_in, undo
from wakelog.audit.store_files import refuse_links
from wakelog.audit.verify import VerifyReport, verify
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.store_lock import StoreLock
from wakelog.storage.file_system import FileSystem
from wakelog.storage.recovery.quarantine import QuarantinedPiece
from wakelog.storage.recovery.steps import recover

MENDED: Final = frozenset({"file", "tail", "queue", "index"})
"""Kinds of findings that a repair can mend."""
KEPT: Final = frozenset({"record", "body", "block"})
"""Kinds that a repair leaves in the log."""


class RepairReport(NamedTuple):
    """The bytes of the log that were cut and kept, and the state of the store afterwards."""

    pieces: tuple[QuarantinedPiece, ...]
    after: VerifyReport


def repair(
    config: StoreConfig, *, scratch: str | None, operator: Operator = SILENT
) -> RepairReport:
    """Repair a store. Raises: StoreLocked, AuditRefused, DamagedStore, StoreError."""
    fs = FileSystem()
    lock = StoreLock(fs, config.paths.lock)
    try:
        refuse_links(fs, config)
        found = verify(config, scratch=scratch, operator=operator, holds_lock=True)
        if not any(finding.kind in MENDED for finding in found.findings.kept):
            return RepairReport((), found)
        moves: list[Move] = []
        try:
            with operator.uninterrupted():
                moves += swap_in(fs, config.paths, rebuild_paths(config), now_ms())
            recovered = recover(fs, config, now_ms(), bridge=False)
        except BaseException:
            with operator.uninterrupted():
                undo(fs, moves)
            raise
        operator.report_moves(moves)
        recovered.files.close()
        lock.sign()
        rebuild_in_place(fs, config, operator)
        after = verify(config, scratch=scratch, operator=operator, holds_lock=True)
        return RepairReport(recovered.report.quarantined, after)
    finally:
        lock.release()
