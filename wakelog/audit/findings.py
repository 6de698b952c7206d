"""The findings of a verification, one for each place that is wrong.

Invariants: the list is bounded and the counts are not, so a heavily damaged store takes no more
memory.
"""

import enum
from dataclasses import dataclass, field
from typing import Final, NamedTuple

# More than a person reads; a store with more needs a rebuild, not a list.
FINDINGS_KEPT_MAX: Final = 1_000


class Severity(enum.Enum):
    """Whether a finding makes a store damaged."""

    NOTE = "note"  # odd, and harmless
    DAMAGE = "damage"


class Finding(NamedTuple):
    """One place; numbers that do not apply are None.

    kind: a fixed word: file, link, record, body, block, tail, queue, index.
    place: a file or a folder, relative to the store's root.
    queue_offset: of the first of `affected_count` places of a queue.
    """

    severity: Severity
    kind: str
    place: str
    reason: str
    physical_offset: int | None = None
    topic: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    affected_count: int | None = None


class Compared(NamedTuple):
    """The result for a queue or the index, and how many entries or keys it has."""

    places_count: int
    findings: list[Finding]


@dataclass
class Findings:
    """A bounded list of findings that counts all of them."""

    kept: list[Finding] = field(default_factory=list)
    damages_count: int = 0
    notes_count: int = 0

    def add(self, finding: Finding) -> None:
        """Count a finding, and keep it if there is room."""
        if finding.severity is Severity.DAMAGE:
            self.damages_count += 1
        else:
            self.notes_count += 1
        if len(self.kept) < FINDINGS_KEPT_MAX:
            self.kept.append(finding)

    @property
    def is_sound(self) -> bool:
        """Whether nothing is damaged."""
        return self.damages_count == 0
