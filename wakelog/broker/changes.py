"""Changes: what a request has changed, until its tables are saved.

A response never leaves before the tables that its request changed are in their files. Who wrote the
processor need not think of it: the changes are found among the instructions.

    asked for       a table cannot be saved: undone in memory, and an error with the reason
    of themselves   such as a topic that a send creates: they stay, and are saved later

A change that was asked for is registered with name servers once it is saved.

Source: org.apache.rocketmq.common.ConfigManager.persist (4.9.3), which logs a failure, so that the
request succeeds.
"""

from collections.abc import Callable
from typing import TypeVar

from wakelog.broker.decision import Instruction, Persist, RegisterBroker

Value = TypeVar("Value")


class Changes:
    """The changes of one request."""

    __slots__ = ("_asked", "_names", "registrations")

    def __init__(self) -> None:
        self._names: dict[str, None] = {}
        self._asked: list[Persist] = []
        self.registrations: list[RegisterBroker] = []

    def __bool__(self) -> bool:
        """Return whether anything has changed."""
        return bool(self._names or self.registrations)

    def take(self, instructions: list[Instruction], begin: int) -> None:
        """Note the changes among the instructions from `begin` on.

        Those that were asked for are taken out, and what is to be registered of them.
        """
        new = instructions[begin:]
        self._names |= {each.name: None for each in new if isinstance(each, Persist)}
        asked = [each for each in new if isinstance(each, Persist) and each.undo is not None]
        self._asked += asked
        registrations = [each for each in new if isinstance(each, RegisterBroker)]
        self.registrations += registrations
        if asked:
            taken = [*asked, *registrations]
            instructions[begin:] = [each for each in new if each not in taken]

    @property
    def were_asked_for(self) -> bool:
        """Whether any of them can be undone."""
        return bool(self._asked)

    def saves(self) -> tuple[Persist, ...]:
        """Return what has to be saved, each table once."""
        undos: dict[str, list[Callable[[], None]]] = {name: [] for name in self._names}
        for each in self._asked:
            if each.undo is not None:
                undos[each.name].append(each.undo)
        return tuple(Persist(name, _all(undos[name])) for name in self._names)

    def undo(self) -> None:
        """Undo what was asked for, the last change first."""
        for each in reversed(self._asked):
            if each.undo is not None:
                each.undo()
        self._asked.clear()


def persist_again(name: str) -> Persist:
    """Return what a request waits for that found nothing to change.

    Another request may have made the change, whose save is under way and may fail.
    """
    return Persist(name, _nothing)


def restore(table: dict[str, Value], name: str, ours: Value | None, before: Value | None) -> bool:
    """Undo a change of an entry, unless another one came after it; return whether it was undone."""
    if table.get(name) is not ours:
        return False
    if before is None:
        del table[name]
    else:
        table[name] = before
    return True


def _nothing() -> None:
    """Undo what changed nothing."""


def _all(undos: list[Callable[[], None]]) -> Callable[[], None] | None:
    def undo() -> None:
        for each in reversed(undos):
            each()

    return undo if undos else None
