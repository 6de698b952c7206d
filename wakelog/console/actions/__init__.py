"""What the console changes: each action is a command of `wakelog`, and runs as that command.

action   what an action is
table    all of them, by name
others   those of one part of a cluster
"""
