"""What a signature covers."""

from wakelog.protocol.signed_content import signed_content


def test_values_stand_in_the_order_of_their_names_and_the_body_behind_them() -> None:
    fields = {"b": "2", "AccessKey": "me", "a": "1", "SecurityToken": "t", "Zeta": "\u00f6"}
    expected = "met\u00f612".encode() + b"body"
    assert signed_content(fields, b"body") == expected
    not_signed = {"Signature": "x", "_UNIQUE_KEY_QUERY": "y"}
    assert signed_content(not_signed | fields, b"body") == expected
    assert signed_content({}, b"") == b""
