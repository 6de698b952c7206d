"""Tests of `wakelog admin`, most of them against a running `wakelog up --local`."""
