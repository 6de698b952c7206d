"""The receipts of a list: made when they are read, in the order of the messages."""

import pickle

from wakelog.client.receipts import Receipt, Receipts
from wakelog.client.route import QueueAt
from wakelog.client.send_command import Stored

FIRST = QueueAt("a", "T", 0, "a:10911")
SECOND = QueueAt("a", "T", 1, "a:10911")


def in_two_queues() -> Receipts:
    """Receipts of three messages, the second of which went to another queue."""
    receipts = Receipts(["K0", "K1", "K2"])
    receipts.add([0, 2], Stored(FIRST, 10, "ID0,ID2", region="r"))
    receipts.add([1], Stored(SECOND, 5, "ID1"))
    return receipts


def test_each_message_has_its_place() -> None:
    receipts = in_two_queues()
    assert list(receipts) == [
        Receipt("T", "a", 0, 10, "K0", "ID0", "a:10911", "r"),
        Receipt("T", "a", 1, 5, "K1", "ID1", "a:10911"),
        Receipt("T", "a", 0, 11, "K2", "ID2", "a:10911", "r"),
    ]


def test_they_are_used_as_a_list() -> None:
    receipts = in_two_queues()
    made = list(receipts)
    assert (len(receipts), receipts[-1], receipts[1:]) == (3, made[2], made[1:])
    assert receipts == made and receipts == in_two_queues() and receipts != made[:2]
    assert [*made, *receipts] == made + made and made[1] in receipts
    assert repr(receipts) == repr(made)
    assert pickle.loads(pickle.dumps(receipts)) == receipts


def test_what_is_not_stored_has_none() -> None:
    receipts = Receipts(["K0", "K1"])
    receipts.add([1], Stored(FIRST, 10, "ID"))
    first, second = receipts.known()
    assert first is None and second is not None and second.message_id == "K1"


def test_a_broker_that_names_one_place_leaves_the_others_unnamed() -> None:
    receipts = Receipts(["K0", "K1"])
    receipts.add([0, 1], Stored(FIRST, 10, "ID0"))
    assert [each.offset_message_id for each in receipts] == ["", ""]
    assert [each.queue_offset for each in receipts] == [10, 11]
