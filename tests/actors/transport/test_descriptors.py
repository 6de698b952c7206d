"""Descriptors arrive as the sender's own file descriptions, or not at all."""

import os
from pathlib import Path

from wakelog.actors.transport.descriptors import (
    BATCH_COUNT_MAX,
    DescriptorReceiver,
    send_descriptors,
)


def test_what_arrives_is_the_same_file_description(short_path: Path, tmp_path: Path) -> None:
    receiver = DescriptorReceiver(short_path / "fds")
    fd = os.open(tmp_path / "segment", os.O_RDWR | os.O_CREAT)
    assert send_descriptors(short_path / "fds", [(4096, fd)])
    [(start_offset, received)] = receiver.drain()
    assert start_offset == 4096 and received != fd
    # One description has one position: a second open of the same file would not move with it.
    os.lseek(fd, 17, os.SEEK_SET)
    assert os.lseek(received, 0, os.SEEK_CUR) == 17
    for descriptor in (fd, received):
        os.close(descriptor)
    assert receiver.drain() == []
    receiver.close()
    assert not (short_path / "fds").exists()


def test_many_segments_arrive_in_order(short_path: Path, tmp_path: Path) -> None:
    receiver = DescriptorReceiver(short_path / "fds")
    fd = os.open(tmp_path / "segment", os.O_RDWR | os.O_CREAT)
    count = 3 * BATCH_COUNT_MAX + 1
    assert send_descriptors(short_path / "fds", [(start, fd) for start in range(count)])
    received = receiver.drain()
    assert [start for start, _ in received] == list(range(count))
    for _, descriptor in received:
        os.close(descriptor)
    os.close(fd)
    receiver.close()


def test_a_receiver_that_is_not_there_or_full_is_said_to_be(
    short_path: Path, tmp_path: Path
) -> None:
    fd = os.open(tmp_path / "segment", os.O_RDWR | os.O_CREAT)
    assert not send_descriptors(short_path / "fds", [(0, fd)])
    receiver = DescriptorReceiver(short_path / "fds")
    sent = 0
    while send_descriptors(short_path / "fds", [(sent, fd)]):
        sent += 1
    received = receiver.drain()
    assert [start for start, _ in received] == list(range(sent))
    assert send_descriptors(short_path / "fds", [(sent, fd)])
    for _, descriptor in received + receiver.drain():
        os.close(descriptor)
    os.close(fd)
    receiver.close()
