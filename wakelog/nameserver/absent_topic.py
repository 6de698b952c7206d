"""The remark of code 17: the reason why a topic has no route.

It starts like 4.9.3's, which people search for. 4.9.3 has one text for three causes: no broker is
up, the topic is misspelled, or it does not exist.

Source: org.apache.rocketmq.namesrv.processor.DefaultRequestProcessor.getRouteInfoByTopic,
org.apache.rocketmq.common.help.FAQUrl (4.9.3).
"""

import difflib
from collections.abc import Iterable
from itertools import islice

FAQ_HINT = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."

NAMES_CHECKED_MAX = 1_000
"""A producer's first message to each new topic gets here: the bound keeps a search near 0.1 ms."""

CANDIDATES_MAX = 20
"""How many of those are compared letter by letter."""

LENGTH_DIFFERENCE_MAX = 2
NEAR_ENOUGH = 0.8  # in a name of ten letters, one is wrong or two are swapped


def absent_topic_remark(topic: str, topics: Iterable[str], *, broker_count: int) -> str:
    """Return the remark for a topic without a route; ``topics`` are those that have one."""
    remark = f"No topic route info in name server for the topic: {topic}"
    if not broker_count:
        return f"{remark}, no broker is registered here{FAQ_HINT}"
    nearest = nearest_name(topic, topics)
    hint = f", the nearest name is {nearest}" if nearest is not None else ""
    return f"{remark}, none of the brokers ({broker_count}) has it{hint}{FAQ_HINT}"


def nearest_name(name: str, names: Iterable[str]) -> str | None:
    """Return the name that was probably meant, None if none is similar."""
    folded = name.casefold()
    candidates: list[str] = []
    for known in islice(names, NAMES_CHECKED_MAX):
        if known.casefold() == folded:
            return known
        near_in_length = abs(len(known) - len(name)) <= LENGTH_DIFFERENCE_MAX
        if near_in_length and known[:1].casefold() == folded[:1]:
            candidates.append(known)
    found = difflib.get_close_matches(name, candidates[:CANDIDATES_MAX], 1, NEAR_ENOUGH)
    return found[0] if found else None
