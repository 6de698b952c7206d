"""What `./dev` runs. Read in this order:

``commands`` (the table of commands) and ``environment`` (how `.venv` is made) run before there is
any environment and use the standard library only; ``generate`` (the documents drawn from tables in
the code), with ``grafana`` and ``overview_board`` (a board drawn from rows), runs inside it.
"""
