"""Statistics by name are put together from pieces as they were."""

from wakelog.telemetry.pieces import add_pieces, encode_pieces


def test_what_came_in_pieces_is_one_again() -> None:
    values = {"store": 1, "queues": {"left_out": 0}}
    pieces = [
        {"puts": {"a": (1, 10)}},
        {"puts": {"b": (2, 20)}, "gets": {"a": {"g": {3: 4}}}},
        {"gets": {"a": {"h": {5: 6}}}, "queues": {"left_out": 7}},
    ]
    add_pieces(values, encode_pieces(pieces))
    assert values == {
        "store": 1,
        "queues": {"left_out": 7},
        "puts": {"a": [1, 10], "b": [2, 20]},
        "gets": {"a": {"g": {3: 4}, "h": {5: 6}}},
    }
