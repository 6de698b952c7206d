"""The style: a colour for every class that pictures use."""

from wakelog.spark.report.figures import SHOWN_TOPICS_MAX
from wakelog.spark.report.style import STYLE


def test_every_topic_and_the_others_have_a_colour() -> None:
    for kind in "clk":
        found = [f".{kind}{i} " in STYLE for i in range(SHOWN_TOPICS_MAX + 2)]
        assert found == [True] * (SHOWN_TOPICS_MAX + 1) + [False]


def test_light_and_dark_set_the_same_names() -> None:
    light, dark = STYLE.split("@media (prefers-color-scheme: dark)")[:2]
    names = {word.split(":")[0] for word in light.split("--")[1:]}
    assert names == {word.split(":")[0] for word in dark.split("}")[0].split("--")[1:]}
