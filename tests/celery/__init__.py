"""Tests of `wakelog.celery`."""
