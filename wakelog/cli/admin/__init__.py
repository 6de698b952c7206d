"""`wakelog admin COMMAND`: mqadmin's commands and flags, without a JVM.

    command.py    what a command is: its flags, what it puts out, and how a command line is read
    java_text.py  values as mqadmin writes them
    topics.py groups.py offsets.py messages.py brokers.py    the commands, each with its rows
    table.py      all rows, and `run_admin`

A command is one row: name, meaning, flags, and an asynchronous generator that asks an `Admin` and
yields what is put out. Commands that do not end yield for ever.

Source: org.apache.rocketmq.tools.command.* (4.9.3).
"""
