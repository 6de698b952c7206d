"""The tags code: the number in a consume queue entry by which a broker filters.

Source: org.apache.rocketmq.store.MessageExtBrokerInner.tagsString2tagsCode (4.9.3)
"""

from functools import lru_cache

from wakelog.protocol.java import string_hash

_MEMO_ENTRIES_MAX = 1024
_MEMO_CHARACTERS_MAX = 128  # longer tags are rare; a cache of them would take memory


def tags_code(tags: str | None) -> int:
    """Return the hash of the whole TAGS property, 0 if there is none.

    The result is a signed 64-bit number on disk, always within 32 bits when made from tags.
    """
    if not tags:
        return 0
    if len(tags) > _MEMO_CHARACTERS_MAX:
        return string_hash(tags)
    return _remembered_code(tags)


_remembered_code = lru_cache(maxsize=_MEMO_ENTRIES_MAX)(string_hash)
