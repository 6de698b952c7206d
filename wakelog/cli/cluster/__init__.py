"""Commands about a running cluster, for people: `wakelog send`, `tail`, `lag`, `doctor` and others.

They work against any RocketMQ 4.x. `wakelog admin` has mqadmin's own names, flags and columns.

    commands.py     what can be typed
    output.py       columns, and the same values as JSON
    times.py        times as users write them
    one file a subject: send, tail, topics, groups, ...

A command is an asynchronous generator that asks an `Admin` and yields what is put out.
"""
