"""Elements, and text that looks like them."""

from wakelog.spark.report.markup import Markup, element, joined, text


def test_text_and_attributes_are_escaped_and_markup_is_not() -> None:
    inner = element("b", "a < b & c")
    assert inner == "<b>a &lt; b &amp; c</b>"
    outer = element("p", inner, "<i>", class_="x", aria_label='"', x=1.25, y=3.0)
    assert outer == (
        '<p class="x" aria-label="&quot;" x="1.2" y="3"><b>a &lt; b &amp; c</b>&lt;i&gt;</p>'
    )


def test_only_elements_without_an_end_have_none() -> None:
    assert element("meta", charset="utf-8") == '<meta charset="utf-8"/>'
    assert element("i") == "<i></i>"
    assert joined(Markup("<i></i>"), text("\x00\n")) == "<i></i>\ufffd\n"
