"""What a topic holds, and how fast it grows."""

from wakelog.console.ends import Ends
from wakelog.protocol.bodies import TopicOffset, TopicStatsTable
from wakelog.protocol.body_codec import MessageQueue

TABLE = TopicStatsTable(
    {
        MessageQueue("T", "a", 0): TopicOffset(10, 30, 1_000),
        MessageQueue("T", "a", 1): TopicOffset(0, 5, 2_000),
    }
)


def test_a_topic_holds_what_lies_between_the_ends_of_its_queues() -> None:
    ends = Ends(5_000, TABLE, 35)
    assert (ends.held, ends.last_stored_ms) == (25, 2_000)
    assert Ends(5_000, TopicStatsTable(), 0).last_stored_ms == 0


def test_a_rate_needs_two_readings() -> None:
    assert Ends(5_000, TABLE, 35).a_second is None
    assert Ends(5_000, TABLE, 35, 5_000, 15).a_second is None
    assert Ends(5_000, TABLE, 35, 3_000, 15).a_second == 10


def test_a_topic_that_was_made_again_has_no_rate_below_zero() -> None:
    assert Ends(5_000, TABLE, 35, 3_000, 90).a_second == 0
