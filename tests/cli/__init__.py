"""Tests of the `wakelog` command."""
