"""Tests of the tags code, also against the real broker's consume queues."""

import pytest

from tests.golden_stores import read_manifest
from wakelog.protocol.tags import tags_code


@pytest.mark.parametrize(("tags", "code"), [(None, 0), ("", 0), ("TagA", 2598919)])
def test_a_tag_has_its_hash_as_code(tags: str | None, code: int) -> None:
    assert tags_code(tags) == code


def test_a_negative_hash_stays_negative() -> None:
    assert tags_code("polygenelubricants") == -(2**31)


def test_a_long_tag_has_the_same_code_as_by_the_short_way() -> None:
    assert tags_code("\0" * 200 + "TagA") == tags_code("TagA")


@pytest.mark.golden
@pytest.mark.parametrize("fixture", ["basic", "batch", "transient"])
def test_codes_are_those_in_the_real_brokers_queues(fixture: str) -> None:
    manifest = read_manifest(fixture)
    tags = {message["commitLogOffset"]: message["tags"] for message in manifest["messages"]}
    compared = 0
    for queue in manifest.get("consumeQueueEntries", []):
        for physical_offset, _, code in queue["entries"]:
            assert tags_code(tags[physical_offset]) == code
            compared += code != 0
    assert compared > 50
