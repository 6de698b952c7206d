"""Parts of a broker that do nothing: they write down, in one list, all that they are asked.

`Asked(fails="store.close")` raises at that call. A method gives its value of `gives`, else None,
and its caller may await that.
"""

from collections.abc import Callable, Generator
from typing import Any


class Failed(Exception):
    """What a call raises that is to fail."""


class Given:
    """What an awaited call returns."""

    def __init__(self, value: object = None) -> None:
        self._value = value

    def __await__(self) -> Generator[None, None, object]:
        return self._value
        yield


class Asked:
    """What parts were asked.

    gives: what methods return, by `part.method`; `Given` if awaited. error: what `fails` raises.
    """

    def __init__(
        self,
        gives: dict[str, Any] | None = None,
        fails: str = "",
        error: Exception | None = None,
    ) -> None:
        self._error = error
        self.calls: list[tuple[Any, ...]] = []
        self.gives = gives or {}
        self.fails = fails

    @property
    def names(self) -> list[str]:
        """The calls alone, without what they were given."""
        return [call[0] for call in self.calls]

    def call(self, name: str, *given: Any, **named: Any) -> Any:
        """Write a call down, with its arguments, and return what it gives."""
        self.calls.append((name, *given, *named.values()))
        if name == self.fails:
            raise self._error or Failed(name)
        return self.gives.get(name, Given())

    def function(self, name: str) -> Callable[..., Any]:
        """Return a function whose calls are written down."""
        return lambda *given, **named: self.call(name, *given, **named)

    def part(self, name: str, **values: Any) -> Any:
        """Return a part with these values, and with methods of any name."""
        return Part(self, name, **values)


class Part:
    """One part."""

    def __init__(self, asked: Asked, name: str, **values: Any) -> None:
        self._asked, self._name = asked, name
        vars(self).update(values)

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method.startswith("__"):
            raise AttributeError(method)
        return self._asked.function(f"{self._name}.{method}")
