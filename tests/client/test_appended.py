"""Properties of a tool beside those of a user."""

import pytest

from wakelog.client.appended import APPENDED_BELOW, APPENDED_BYTES_MAX, with_appended
from wakelog.client.messages import Message, encode
from wakelog.protocol.properties import PROPERTIES_BYTES_MAX


@pytest.mark.parametrize(
    ("properties", "appended", "found"),
    [
        ("a\x011", "\x02b\x012", "a\x011\x02b\x012"),
        ("a\x011", "\x02a\x012\x02b\x013", "a\x011"),
        ("ab\x011", "\x02b\x012", "ab\x011\x02b\x012"),
        ("a\x01" + "1" * (PROPERTIES_BYTES_MAX - 6), "\x02b\x012", None),
        ("a\x01" + "1" * (PROPERTIES_BYTES_MAX - 5), "\x02b\x012", ""),
    ],
)
def test_the_users_properties_stay(properties: str, appended: str, found: str | None) -> None:
    wanted = {None: properties + appended, "": properties}.get(found, found)
    assert with_appended(properties, appended) == wanted


def test_both_fit_without_a_check() -> None:
    assert 4 * APPENDED_BELOW + APPENDED_BYTES_MAX < PROPERTIES_BYTES_MAX


@pytest.mark.parametrize("tags", ["", "t", "t" * APPENDED_BELOW])
@pytest.mark.parametrize("keys", ["", "k"])
def test_a_message_has_them_unless_its_properties_are_long(tags: str, keys: str) -> None:
    plain = encode(Message("T", b"x", tags=tags, keys=keys), "ID").properties
    found = encode(Message("T", b"x", tags=tags, keys=keys), "ID", appended="\x02b\x012")
    assert found.properties == plain + ("" if len(tags) > 1 else "\x02b\x012")
