"""What the two persistence models let a crash leave."""

from random import Random

import pytest

from tests.simulation.disk import Image, SimulatedDisk, SimulatedFileSystem
from tests.simulation.faults import Failure
from tests.simulation.images import Model, Platter, Torn, digest


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Image({"/old": b"o" * 2048}, frozenset({"/", "/folder"})))


def platter_of(disk: SimulatedDisk, model: Model) -> Platter:
    platter = Platter(disk.origin, model)
    for operation in disk.journal:
        platter.take(operation)
    return platter


def every_image(disk: SimulatedDisk, model: Model) -> list[Image]:
    """Return the image of each subset of what is pending."""
    platter = platter_of(disk, model)
    numbers = sorted(platter.whole)
    assert len(numbers) <= 10
    return [
        platter.image(frozenset(n for i, n in enumerate(numbers) if bits >> i & 1))
        for bits in range(1 << len(numbers))
    ]


def make(fs: SimulatedFileSystem, path: str, data: bytes, *, sync: bool = False) -> None:
    fd = fs.open(path, create=True)
    fs.pwrite(fd, data, 0)
    if sync:
        fs.sync(fd)
    fs.close(fd)


def contents(images: list[Image], path: str) -> set[bytes | None]:
    return {image.files.get(path) for image in images}


@pytest.mark.parametrize("model", Model)
def test_sectors_of_a_write_arrive_in_any_order(disk: SimulatedDisk, model: Model) -> None:
    fs = disk.process()
    fd = fs.open("/old")
    fs.pwrite(fd, b"n" * 600, 500)  # the end of one sector, one whole, the begin of a third
    found = contents(every_image(disk, model), "/old")
    parts = [(500, 512), (512, 1024), (1024, 1100)]
    expected = set()
    for bits in range(8):
        data = bytearray(b"o" * 2048)
        for i, (begin, end) in enumerate(parts):
            if bits >> i & 1:
                data[begin:end] = b"n" * (end - begin)
        expected.add(bytes(data))
    assert found == expected


@pytest.mark.parametrize("model", Model)
def test_what_was_synced_stays(disk: SimulatedDisk, model: Model) -> None:
    fs = disk.process()
    fd = fs.open("/old")
    fs.pwrite(fd, b"n" * 512, 0)
    fs.datasync(fd)
    fs.pwrite(fd, b"m" * 512, 0)
    first = {data[:512] for data in contents(every_image(disk, model), "/old") if data}
    assert first == {b"n" * 512, b"m" * 512}


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (Model.STRICT_POSIX, {None, b"", b"\xdb" * 4, b"data"}),
        (Model.EXT4_ORDERED, {None, b"", b"data"}),
    ],
)
def test_a_length_without_its_data(
    disk: SimulatedDisk, model: Model, expected: set[bytes | None]
) -> None:
    make(disk.process(), "/folder/new", b"data")
    assert contents(every_image(disk, model), "/folder/new") == expected


@pytest.mark.parametrize(
    ("model", "is_there"), [(Model.STRICT_POSIX, False), (Model.EXT4_ORDERED, True)]
)
def test_whether_the_sync_of_a_file_keeps_its_name(
    disk: SimulatedDisk, model: Model, is_there: bool
) -> None:
    fs = disk.process()
    make(fs, "/folder/new", b"data", sync=True)
    found = contents(every_image(disk, model), "/folder/new")
    assert found == ({b"data"} if is_there else {None, b"data"})
    fs.sync_directory("/folder")
    assert contents(every_image(disk, model), "/folder/new") == {b"data"}


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        # A name may come before the data it was given to.
        (Model.STRICT_POSIX, {b"o" * 2048, b"", b"\xdb" * 4, b"data"}),
        (Model.EXT4_ORDERED, {b"o" * 2048, b"data"}),
    ],
)
def test_a_rename_without_a_sync(
    disk: SimulatedDisk, model: Model, expected: set[bytes | None]
) -> None:
    fs = disk.process()
    make(fs, "/new", b"data")
    fs.rename("/new", "/old")
    assert contents(every_image(disk, model), "/old") == expected


def test_a_move_between_folders_may_leave_no_name_or_both(disk: SimulatedDisk) -> None:
    fs = disk.process()
    fs.rename("/old", "/folder/old")
    strict = every_image(disk, Model.STRICT_POSIX)
    assert {tuple(image.files) for image in strict} == {
        (),
        ("/old",),
        ("/folder/old",),
        ("/folder/old", "/old"),
    }
    ordered = every_image(disk, Model.EXT4_ORDERED)
    assert {tuple(image.files) for image in ordered} == {("/old",), ("/folder/old",)}


def test_names_below_a_lost_folder_are_lost() -> None:
    disk = SimulatedDisk()
    fs = disk.process()
    fs.make_directories("/a/b")
    make(fs, "/a/b/file", b"data", sync=True)
    platter = platter_of(disk, Model.STRICT_POSIX)
    assert platter.image(frozenset()).files == {}
    assert platter.image(platter.whole) == disk.image()


@pytest.mark.parametrize("model", Model)
def test_lost_pages_are_never_made_durable_by_a_later_sync(
    disk: SimulatedDisk, model: Model
) -> None:
    fs = disk.process()
    fd = fs.open("/old")
    fs.pwrite(fd, b"n" * 2048, 0)
    disk.faults.fail("datasync", Failure(), nth=1)
    with pytest.raises(OSError, match="Input/output error"):
        fs.datasync(fd)
    fs.datasync(fd)
    assert contents(every_image(disk, model), "/old") == {disk.files["/old"].durable}


def test_the_newest_write_may_be_torn_anywhere(disk: SimulatedDisk) -> None:
    fs = disk.process()
    fs.pwrite(fs.open("/old"), b"n" * 300, 100)
    platter = platter_of(disk, Model.STRICT_POSIX)
    torn = platter.torn(Random(1))
    assert torn is not None and 100 < torn.end < 400
    data = platter.image(platter.whole, Torn(torn.first_unit, 104)).files["/old"]
    assert data == b"o" * 100 + b"nnnn" + b"o" * (2048 - 104)


@pytest.mark.parametrize(("position", "may_be"), [(8, False), (12, True)])
def test_a_field_is_not_torn(disk: SimulatedDisk, position: int, may_be: bool) -> None:
    fs = disk.process()
    fs.pwrite(fs.open("/old"), b"n" * 8, position)
    assert (platter_of(disk, Model.STRICT_POSIX).torn(Random(1)) is not None) is may_be


def test_a_fork_goes_its_own_way(disk: SimulatedDisk) -> None:
    fs = disk.process()
    fs.pwrite(fs.open("/old"), b"n", 0)
    platter = platter_of(disk, Model.STRICT_POSIX)
    fork = platter.fork()
    fs.datasync(fs.open("/old"))
    fork.take(disk.journal[-1])
    assert (len(platter.pending), len(fork.pending)) == (1, 0)
    assert platter.cached_inodes() == {"/old": 0}


def test_images_differ_by_names_bytes_and_folders() -> None:
    base = Image({"/a": b"1"}, frozenset({"/"}))
    others = [
        Image({"/a": b"2"}, base.directories),
        Image({"/b": b"1"}, base.directories),
        Image({}, base.directories),
        Image(base.files, frozenset({"/", "/c"})),
    ]
    assert len({digest(image) for image in (base, *others)}) == 5
    assert digest(base) == digest(Image(dict(base.files), base.directories))
