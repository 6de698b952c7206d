"""The `wakelog` command.

Read in this order: `app` (what can be typed), `up` (start, watch, stop), `preflight` and
`store_check` (what is looked at before anything is started), `failures` (how an error is put into
words), then the small ones: `stop_signals`, `screen`, `printer`, `rates`, `port_holder`.

What a user gets for an error is one line, `wakelog: <cause>. <remedy>`, on standard error, and exit
code 2 if the command line or broker.conf is wrong, 1 otherwise.
"""
