"""Hypothesis's settings here: no deadline on a busy machine, and the same examples each run."""

from hypothesis import settings

settings.register_profile("protocol", deadline=None, derandomize=True, database=None)
settings.load_profile("protocol")
