"""What a part of the broker cannot do, why, and what helps: said once, and until it works again.

A part is a service, a table or a plug-in. What it was asked for stands beside it: a service may be
attached, and yet refuse the one call that it is for. The shell notes refusals and successes. The
screen, code 28 (`status`, `doctor`), the metrics and the exit code say what is left.
"""

from collections.abc import Container, Iterator, Mapping
from typing import Final, NamedTuple

TROUBLE_PREFIX: Final = "trouble_"
NOTICE_PREFIX: Final = "notice_"
"""How the names of troubles, and of what works with something lost, begin among the values of code
28; 4.9.3 has no such names."""

_ARROW: Final = " -> "

CHECK_DISK: Final = "Look at the disk, and at the permissions of the store."


class Trouble(NamedTuple):
    """A clause that says why something does not work, and a sentence that says what helps."""

    reason: str
    remedy: str = CHECK_DISK


class Troubles:
    """The troubles of one part, by what it was asked for."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[str, Trouble] = {}

    @property
    def first(self) -> Trouble | None:
        """The one that began first, None if everything works."""
        return self.first_but(())

    def first_but(self, parts: Container[str]) -> Trouble | None:
        """Return the one that began first, leaving out what was asked for among `parts`."""
        return next((one for asked, one in self._found.items() if asked not in parts), None)

    def refused(self, asked: str, trouble: Trouble) -> bool:
        """Note a refusal; return whether it is news, to be logged."""
        is_news = self._found.get(asked) != trouble
        self._found[asked] = trouble
        return is_news

    def worked(self, asked: str) -> bool:
        """Note a success; return whether it ends a trouble."""
        return self._found.pop(asked, None) is not None


def trouble_text(part: str, trouble: Trouble) -> str:
    """Return the line that a user reads."""
    return f"{trouble_clause(part, trouble)}. {trouble.remedy}"


def trouble_clause(part: str, trouble: Trouble) -> str:
    """Return what does not work, and why."""
    return f"{part} does not work: {trouble.reason}"


def notice_text(part: str, notice: Trouble) -> str:
    """Return the line that a user reads about what works with something lost."""
    return f"{part}: {notice.reason}. {notice.remedy}"


def runtime_values(troubles: Mapping[str, Trouble], prefix: str = TROUBLE_PREFIX) -> dict[str, str]:
    """Return values of code 28, which have one line each."""
    return {
        prefix + part: " ".join(f"{one.reason}{_ARROW}{one.remedy}".split())
        for part, one in sorted(troubles.items())
    }


def read_troubles(
    values: Mapping[str, str], prefix: str = TROUBLE_PREFIX
) -> Iterator[tuple[str, Trouble]]:
    """Yield each part that does not work, from the values of code 28."""
    for name, text in sorted(values.items()):
        if name.startswith(prefix):
            reason, _, remedy = text.rpartition(_ARROW)
            yield name.removeprefix(prefix), Trouble(reason or remedy, remedy)
