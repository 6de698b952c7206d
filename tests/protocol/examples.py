"""The worked examples of the format documents, so that the documents cannot drift."""

from tests.documents import ROOT, blocks_of

HEX_COLUMNS = 28


def document_example(name: str) -> bytes:
    """Return the bytes of a document's hex block: the first columns of each line."""
    blocks = blocks_of(ROOT / "docs" / "formats" / name)
    (example,) = (block.text for block in blocks if block.language == "hex")
    return bytes.fromhex("".join(line[:HEX_COLUMNS] for line in example.splitlines()))
