"""Troubles: news once, until it works again; the same words on both sides of code 28."""

from wakelog.broker.trouble import Trouble, Troubles, read_troubles, runtime_values, trouble_text

FULL = Trouble("write of /s/index failed: No space left on device", "Free some space.")


def test_a_trouble_is_news_once_and_lasts_until_the_same_thing_works() -> None:
    found = Troubles()
    assert found.first is None
    assert found.refused("step", FULL)
    assert not found.refused("step", FULL)
    assert found.refused("step", Trouble("another reason"))
    assert not found.worked("attach")
    assert found.first == Trouble("another reason")
    assert found.worked("step") and not found.worked("step")
    assert found.first is None and found.refused("step", FULL)


def test_the_first_trouble_is_shown() -> None:
    found = Troubles()
    found.refused("attach", FULL)
    found.refused("step", Trouble("later"))
    assert found.first == FULL


def test_values_of_code_28_say_it_in_one_line_each() -> None:
    troubles = {"reput": FULL, "flush": Trouble("a\nb -> c", "Do d.")}
    values = runtime_values(troubles)
    assert values["trouble_flush"] == "a b -> c -> Do d."
    found = dict(read_troubles({"bootTimestamp": "1", **values}))
    assert found == {"reput": FULL, "flush": Trouble("a b -> c", "Do d.")}
    assert list(read_troubles({"bootTimestamp": "1"})) == []


def test_a_user_reads_reason_and_remedy() -> None:
    assert trouble_text("reput", FULL) == (
        "reput does not work: write of /s/index failed: No space left on device. Free some space."
    )
