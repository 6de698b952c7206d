"""The tooling behind `./dev`: standard library only, since it runs before any environment exists.

Read `commands.py` first (one table of commands), then `environment.py` (how `.venv` is made).
"""
