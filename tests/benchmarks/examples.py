"""A made-up result of each row, for tests of what is drawn from results."""

from benchmarks.pairs import Measured
from benchmarks.results import Result, result_of
from benchmarks.rows import ROWS, Row

MACHINE = {
    "processor": "a processor",
    "cores": 2,
    "memory_gib": 8.0,
    "kernel": "6.1",
    "file_system": "ext4",
    "python": "3.11.7",
    "ray": "2.60.0",
    "java": 'openjdk version "17"',
}


def example(row: Row, *ratios: float) -> Result:
    """Return a result whose pairs have these ratios in every figure."""
    pairs = []
    for ratio in ratios:
        theirs = {figure.name: 100.0 for figure in row.figures}
        ours = {
            figure.name: 100.0 / ratio if figure.less_is_better else 100.0 * ratio
            for figure in row.figures
        }
        busy = {"the driver": 80.0}
        pairs.append(
            {
                "wakelog": {**ours, "errors": 0, "turn": 1, "busy_percent": busy},
                "rocketmq": {**theirs, "errors": 0, "turn": 2, "busy_percent": busy},
            }
        )
    return result_of(row, Measured(pairs, [], {}), MACHINE)


def row_named(name: str) -> Row:
    [row] = [row for row in ROWS if row.name == name]
    return row
