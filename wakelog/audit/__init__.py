"""Tools over a store at rest or beside a running broker: verify, rebuild, dump, compare, repair.

Nothing that serves a request imports this package; a contract in `pyproject.toml` holds that.
`verify` and `rebuild` are the entries; `parallel` is how a rebuild uses every processor.
"""
