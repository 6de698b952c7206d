"""Tests of `wakelog.tasks`."""
