"""The pictures of the console are there, are small, and are shown in a document."""

import pytest

from tests.compat.provision import ROOT
from tests.console.pictures import FOLDER, PICTURE_BYTES_MAX, PICTURES, Picture

DOCUMENTS = (ROOT / "README.md", ROOT / "docs" / "console.md")
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_a_picture_is_there_and_shown(picture: Picture) -> None:
    path = FOLDER / f"{picture.name}.png"
    content = path.read_bytes()
    assert content.startswith(PNG) and len(content) <= PICTURE_BYTES_MAX
    width, height = (int.from_bytes(content[at : at + 4]) for at in (16, 20))
    assert (width, height) == (picture.view.width * picture.scale, picture.height * picture.scale)
    assert any(f"pictures/{path.name}" in each.read_text() for each in DOCUMENTS)


def test_there_is_no_picture_that_is_not_made() -> None:
    assert {path.stem for path in FOLDER.glob("*.png")} == {each.name for each in PICTURES}
