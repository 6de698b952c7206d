"""The sender and the reader for threads: each call blocks until it is done."""

from wakelog.client.sync import Blocking, blocking
from wakelog.tasks.reader import TaskReader
from wakelog.tasks.sender import TaskSender


class BlockingSender(Blocking[TaskSender]):
    """See `TaskSender`."""

    declare = blocking(TaskSender.declare)
    put = blocking(TaskSender.put)
    size = blocking(TaskSender.size)
    purge = blocking(TaskSender.purge)


class BlockingReader(Blocking[TaskReader]):
    """See `TaskReader`."""

    wait_next = blocking(TaskReader.wait_next)
    ack = blocking(TaskReader.ack)
    refuse = blocking(TaskReader.refuse)
