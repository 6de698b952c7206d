"""What brokers have unlike."""

from wakelog.console.views.disagreements import disagreements


def test_only_what_differs_is_said_with_the_brokers_of_each_value() -> None:
    settings = [("a", {"queues": "4", "order": "no"}), ("b", {"queues": "8", "order": "no"})]
    assert disagreements(settings) == ["queues: 4 at a; 8 at b"]
    assert disagreements([*settings, ("c", {"queues": "8", "order": "no"})]) == [
        "queues: 4 at a; 8 at b, c"
    ]
    assert disagreements(settings[:1]) == []
