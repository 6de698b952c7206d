"""The boards of dashboards/, each a module with its tables; `./dev docs` draws them.

`grafana` makes JSON of them. To add a board, write a module, and name it here.
"""

from scripts.boards import actors, consumers, exporter, overview, replication, store

BOARDS = (
    overview.BOARD,
    store.BOARD,
    consumers.BOARD,
    actors.BOARD,
    replication.BOARD,
    exporter.BOARD,
)
"""In the order of their README."""
