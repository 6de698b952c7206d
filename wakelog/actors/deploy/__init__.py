"""From what the command line asks for to processes that run, are watched, and stop in order.

Read `plan` (the values), `planning` (how flags and broker.conf become them), `deployment` (what a
deployment can do), then its two kinds: `local`, in one process, and `supervised`, in Ray. The actor
that starts, watches and stops the others is in `supervisor`.
"""
