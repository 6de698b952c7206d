"""AllocateMappedFile: whole segments, made once, and what a crash left is removed."""

from pathlib import Path

import pytest

from tests.actors.plans import SEGMENT_BYTES, service_plan
from tests.actors.services.fakes import EPOCH
from tests.actors.stores import known_of, open_plan_store
from wakelog.actors.services.allocate_mapped_file import AllocateMappedFileService
from wakelog.actors.services.session import Refused


def test_a_segment_appears_with_its_full_length(tmp_path: Path) -> None:
    plan = service_plan(tmp_path)
    service = AllocateMappedFileService(plan.to_builtins(), "allocate_mapped_file")
    with open_plan_store(plan) as store:
        service.attach(known_of(store))
        path = store.log.files.path_for(SEGMENT_BYTES)
        assert service.call(EPOCH, "make", path) is None
        assert Path(path).stat().st_size == SEGMENT_BYTES
        assert service.call(EPOCH, "make", path) is None
        assert service.statistics() == {"made_count": 1, "failed_count": 0}
        service.release()


def test_why_a_segment_cannot_be_made_is_returned(tmp_path: Path) -> None:
    plan = service_plan(tmp_path)
    service = AllocateMappedFileService(plan.to_builtins(), "allocate_mapped_file")
    with open_plan_store(plan) as store:
        service.attach(known_of(store))
        path = Path(store.log.files.path_for(SEGMENT_BYTES))
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"short")
        refusal = service.call(EPOCH, "make", str(path))
        assert refusal is not None and "5 bytes" in refusal
        service.release()


def test_what_was_left_half_made_is_removed(tmp_path: Path) -> None:
    plan = service_plan(tmp_path)
    with open_plan_store(plan) as store:
        paths = plan.settings.store.paths
        half = Path(paths.new_file(store.log.files.path_for(SEGMENT_BYTES), "allocate_mapped_file"))
        half.write_bytes(b"half")
        service = AllocateMappedFileService(plan.to_builtins(), "allocate_mapped_file")
        service.attach(known_of(store))
        assert not half.exists()
        service.release()


def test_a_call_that_is_not_for_it_is_refused(tmp_path: Path) -> None:
    plan = service_plan(tmp_path)
    service = AllocateMappedFileService(plan.to_builtins(), "allocate_mapped_file")
    with pytest.raises(Refused):
        service.call(EPOCH, "make", "/x")
    with open_plan_store(plan) as store:
        service.attach(known_of(store))
        with pytest.raises(Refused):
            service.call(EPOCH + 1, "make", "/x")
        service.release()
