"""The columns of `fields.py` are distinct and fill a row."""

from __future__ import annotations

from wakelog.spark.records import fields


def test_each_field_has_a_place_of_its_own() -> None:
    other = {"FIELDS", "HOST_TEXT_MAX", "PAIR_BYTES_MIN"}
    places = [value for name, value in vars(fields).items() if name.isupper() and name not in other]
    assert sorted(places) == list(range(fields.FIELDS))


def test_a_host_has_room() -> None:
    assert len(f"[{':'.join(['ffff'] * 8)}]:{-(2**31)}") <= fields.HOST_TEXT_MAX
