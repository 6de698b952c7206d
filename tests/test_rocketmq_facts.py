"""The facts that code cites are the facts that docs/rocketmq_facts.md has."""

import re

from tests import tidy

DOCUMENT = "docs/rocketmq_facts.md"
CITATION = re.compile(r"\b[Ff]acts? (\d+(?:(?:, | and )\d+)*)\b")
NUMBER = re.compile(r"\d+")
ROW = re.compile(r"^\| (\d+) \|", re.MULTILINE)


def test_the_document_has_the_facts_that_are_cited() -> None:
    sources = {source.path: source.text for source in tidy.sources()}
    listed = ROW.findall(sources.pop(DOCUMENT))
    cited = {
        number
        for text in sources.values()
        for match in CITATION.finditer(text)
        for number in NUMBER.findall(match[1])
    }
    assert sorted(listed) == sorted(cited)
