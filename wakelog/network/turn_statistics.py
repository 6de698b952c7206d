"""TurnStatistics: what the turns of a server have done."""

from dataclasses import dataclass


@dataclass(slots=True)  # not a Struct: its attributes are set at each turn, three times as fast
class TurnStatistics:
    """Counts since the start."""

    turns_count: int = 0
    requests_count: int = 0
    answers_count: int = 0
    failures_count: int = 0
    answers_dropped_count: int = 0
    received_bytes: int = 0
    written_bytes: int = 0
    busy_seconds: float = 0.0
    longest_seconds: float = 0.0
