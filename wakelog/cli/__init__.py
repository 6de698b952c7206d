"""The `wakelog` command.

Read `command` (what a command is, and how its words are read), `root` (where the commands are) and
`start` (two of them). Then read `up` (start, watch, stop), `preflight` and `store_check` (checks
before anything is started), and `failures` (the words of an error). The small modules are
`stop_signals`, `screen`, `printer`, `rates` and `port_holder`.

What a user gets for an error is one line, `wakelog: <cause>. <remedy>`, on standard error, and exit
code 2 if the command line or broker.conf is wrong, 1 otherwise.
"""
