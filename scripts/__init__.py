"""What `./dev` runs. Read in this order:

``commands`` has the table of commands, and ``environment`` makes `.venv`. Both run before there is
an environment and use the standard library only. ``generate`` draws documents and boards from
tables in the code; it runs inside the environment.
"""
