"""What the store answers is plain values."""

from __future__ import annotations

from wakelog.storage.results import GetResult, GetStatus, PutResult, PutStatus


def test_a_put_ends_where_a_flush_has_to_reach() -> None:
    result = PutResult(PutStatus.PUT_OK, physical_offset=100, size_bytes=30)
    assert result.physical_offset_end == 130


def test_statuses_have_upstreams_names_which_clients_see() -> None:
    assert {status.name: status.value for status in GetStatus} == {
        status.name: status.name for status in GetStatus
    }
    assert PutStatus.CREATE_MAPPED_FILE_FAILED.value == "CREATE_MAPEDFILE_FAILED"


def test_a_get_without_messages_has_none() -> None:
    result = GetResult(GetStatus.OFFSET_TOO_SMALL, 5, 5, 9)
    assert (result.frames, result.count, result.size_bytes) == ((), 0, 0)
