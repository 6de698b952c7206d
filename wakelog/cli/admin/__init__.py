"""`wakelog admin COMMAND`: mqadmin's commands and flags, without a JVM.

    command.py    how a command is declared, and what commands put out
    java_text.py  values as mqadmin writes them
    topics.py groups.py offsets.py messages.py brokers.py    the commands

A command is an asynchronous generator that asks an `Admin` and yields what is put out. One that
does not end yields for ever.

Source: org.apache.rocketmq.tools.command.* (4.9.3).
"""
