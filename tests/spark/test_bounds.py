"""Bounds of queues, and the topics of users and of the system."""

import pickle

from wakelog.spark.bounds import EVERYTHING, Bounds, Selection, Topics, is_system_topic


def test_bounds_lie_within_others() -> None:
    assert Bounds(3, 9).within(EVERYTHING) == Bounds(3, 9)
    assert Bounds(3, 9, 0, 50).within(Bounds(5, 20, 10)) == Bounds(5, 9, 10, 50)


def test_all_bounds_of_a_queue_hold() -> None:
    selection = Selection(
        brokers={"b": Bounds(physical_begin=100)},
        queues={("b", "T", 0): Bounds(queue_begin=5)},
        everywhere=Bounds(queue_end=9),
    )
    assert selection.bounds("b", "T", 0) == Bounds(5, 9, 100)
    assert selection.bounds("c", "T", 0) == Bounds(queue_end=9)


def test_a_queue_of_another_topic_has_no_bounds() -> None:
    assert Selection(Topics(frozenset({"U"}))).bounds("b", "T", 0) is None


def test_topics_of_an_assignment_are_named() -> None:
    topics = Topics(assigned={"A": {"": frozenset({0})}})
    assert topics.named == {"A"}
    assert topics.accept_topic("A") and not topics.accept_topic("B")
    assert pickle.loads(pickle.dumps(topics)) == topics


def test_the_systems_topics() -> None:
    assert is_system_topic("SCHEDULE_TOPIC_XXXX") and is_system_topic("rmq_sys_x")
    assert not is_system_topic("T")
