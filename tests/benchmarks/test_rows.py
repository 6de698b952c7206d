"""The table of rows: complete, named once, and promising what the project promises."""

from benchmarks.rows import REQUIRED, ROWS

PROMISED = {
    "sync-1": "per_second",
    "sync-16": "per_second",
    "sync-64": "per_second",
    "transactions-64": "per_second",
    "acl-64": "per_second",
    "tls-64": "per_second",
    "async-256": "per_second",
    "oneway": "per_second",
    "flush-1": "per_second",
    "flush-64": "per_second",
    "consume": "per_second",
    "latency": "p50_ms",
    "rebuild": "seconds",
}


def test_names_are_unique_and_so_are_figures() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    for row in ROWS:
        assert len({figure.name for figure in row.figures}) == len(row.figures)


def test_what_is_promised_is_required_together_with_the_brokers_cpu() -> None:
    required = {
        row.name: [figure.name for figure in row.figures if figure.required == REQUIRED]
        for row in ROWS
        if any(figure.required is not None for figure in row.figures)
    }
    assert {name: figures[0] for name, figures in required.items()} == PROMISED
    assert all(figures[1].startswith("broker_cpu") for figures in required.values())
