"""A dispatch request is a value."""

from wakelog.storage.log.dispatch_request import DispatchRequest


def test_a_put_ends_after_its_record() -> None:
    request = DispatchRequest("T", 1, 2, 1000, 91, 0, 0, 0, 0, None, None, {})
    assert request.physical_offset_end == 1091
