"""Segments are made whole, and once."""

from pathlib import Path

from tests.actors.plans import SEGMENT_BYTES, service_plan
from tests.actors.services.fakes import EPOCH
from tests.actors.stores import attached_service, known_of, open_plan_store
from wakelog.actors.services.allocate_mapped_file import (
    AllocateMappedFileService,
)
from wakelog.actors.services.service import ServiceHost


def test_a_segment_appears_with_its_full_length(tmp_path: Path) -> None:
    with attached_service(AllocateMappedFileService, service_plan(tmp_path)) as (service, store):
        path = store.log.files.path_for(SEGMENT_BYTES)
        assert service.call(EPOCH, "make", path) is None
        assert Path(path).stat().st_size == SEGMENT_BYTES
        assert service.call(EPOCH, "make", path) is None
        assert service.statistics() == {"made_count": 1, "failed_count": 0}


def test_why_a_segment_cannot_be_made_is_returned(tmp_path: Path) -> None:
    with attached_service(AllocateMappedFileService, service_plan(tmp_path)) as (service, store):
        path = Path(store.log.files.path_for(SEGMENT_BYTES))
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"short")
        refusal = service.call(EPOCH, "make", str(path))
        assert refusal is not None and "5 bytes" in refusal
        assert service.statistics() == {"made_count": 0, "failed_count": 1}


def test_what_was_left_half_made_is_removed(tmp_path: Path) -> None:
    plan = service_plan(tmp_path)
    with open_plan_store(plan) as store:
        paths = plan.settings.store.paths
        half = Path(paths.new_file(store.log.files.path_for(SEGMENT_BYTES), "allocate_mapped_file"))
        half.write_bytes(b"half")
        service = ServiceHost[AllocateMappedFileService](plan.to_builtins(), "allocate_mapped_file")
        service.attach(known_of(store))
        assert not half.exists()
        service.release()
