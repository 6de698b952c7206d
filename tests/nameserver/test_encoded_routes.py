"""Which encoded routes are kept."""

from collections.abc import Iterator

import pytest

from wakelog.nameserver.encoded_routes import BYTES_MAX, EncodedRoutes

THIRD = bytes(BYTES_MAX // 3)


@pytest.fixture
def routes() -> Iterator[EncodedRoutes]:
    """Return a table without routes; its invariant is asserted at the end."""
    made = EncodedRoutes()
    yield made
    made.validate()


def test_a_body_is_kept_until_it_is_forgotten(routes: EncodedRoutes) -> None:
    routes.put("T", b"one")
    routes.put("T", b"other")
    assert routes.get("T") == b"other"
    assert (len(routes), routes.size_bytes) == (1, 5)
    routes.forget("T")
    routes.forget("T")
    assert routes.get("T") is None
    routes.put("T", b"one")
    routes.clear()
    assert (len(routes), routes.size_bytes) == (0, 0)


def test_the_body_asked_for_longest_ago_goes_first(routes: EncodedRoutes) -> None:
    for name in "ABC":
        routes.put(name, THIRD)
    assert routes.get("A") is not None
    routes.put("D", THIRD)
    assert list(routes) == ["C", "A", "D"]


def test_a_body_beyond_the_limit_is_not_kept(routes: EncodedRoutes) -> None:
    routes.put("T", bytes(BYTES_MAX + 1))
    assert list(routes) == []
