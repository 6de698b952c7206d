"""What the brokers of the task frameworks (Celery, dramatiq, taskiq) have in common.

Read in this order:

    names.py     the name of a queue -> a topic and a group that RocketMQ accepts
    due.py       when a task is due -> the delay level of its next hop
    sender.py    puts tasks into topics; makes, measures and empties topics
    reader.py    gives the tasks of one queue, each when it is due; takes them back
    blocking.py  both for threads

All of it is asyncio, and works through the client alone. No framework is imported here.
"""
