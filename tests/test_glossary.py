"""The glossary is short and in order, and the tree uses each of its terms."""

import re

from tests import tidy

DOCUMENT = "docs/glossary.md"
TERMS_MAX = 40
ROW = re.compile(r"^\| ([A-Za-z][\w -]*?) \|", re.MULTILINE)


def test_the_glossary_is_short_and_in_order() -> None:
    terms = terms_of_the_glossary()
    assert len(terms) <= TERMS_MAX
    assert terms == sorted(terms, key=str.lower)


def test_the_tree_uses_every_term() -> None:
    text = "\n".join(x.text for x in tidy.sources() if x.path.startswith("wakelog/"))
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower()
    spaced = re.sub(r"[\s_-]+", " ", apart)
    unused = [x for x in terms_of_the_glossary() if x.lower().replace("-", " ") not in spaced]
    assert not unused


def terms_of_the_glossary() -> list[str]:
    text = (tidy.ROOT / DOCUMENT).read_text(encoding="utf-8")
    return ROW.findall(text)[1:]  # without the heading
