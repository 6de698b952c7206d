"""The pictures of the boards: one of each, shown in a document, drawn from its queries."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.compat.provision import ROOT
from tests.deploy.board_pictures import (
    COLUMN,
    FOLDER,
    NO_DATA,
    PICTURE_BYTES_MAX,
    SHOWN_SECONDS,
    Asker,
    board_html,
    shown,
)
from tests.test_dashboards import BOARDS, board_at, panels_of

NAMES = [Path(path).stem for path in BOARDS]
PNG = b"\x89PNG\r\n\x1a\n"
END_SECONDS = 1_000.0


class FakeAsker(Asker):
    """A Prometheus that has two points of one series for each query."""

    def _ask(self, kind: str, target: Mapping[str, Any], **asked: float) -> list[Any]:
        metric = {"broker": "<b>"}
        if kind == "query":
            return [{"metric": metric, "value": [END_SECONDS, "7"]}]
        begin = END_SECONDS - SHOWN_SECONDS
        return [
            {"metric": metric, "values": [[begin, "1"], [END_SECONDS, "4"], [END_SECONDS, "NaN"]]}
        ]


class Empty(Asker):
    """A Prometheus that has nothing."""

    def _ask(self, kind: str, target: Mapping[str, Any], **asked: float) -> list[Any]:
        return []


@pytest.mark.parametrize("name", NAMES)
def test_a_board_has_a_picture_that_is_shown(name: str) -> None:
    content = (FOLDER / f"{name}.png").read_bytes()
    assert content.startswith(PNG) and len(content) <= PICTURE_BYTES_MAX
    width, height = (int.from_bytes(content[at : at + 4]) for at in (16, 20))
    assert width == 24 * COLUMN
    assert height == board_html(board_at(f"dashboards/{name}.json"), Empty(0, END_SECONDS))[1]
    readme = (ROOT / "dashboards" / "README.md").read_text(encoding="utf-8")
    assert f"docs/pictures/boards/{name}.png" in readme


def test_there_is_no_picture_of_another_board() -> None:
    assert sorted(path.stem for path in FOLDER.iterdir()) == NAMES


@pytest.mark.parametrize("path", BOARDS)
def test_every_panel_is_drawn(path: str) -> None:
    page, _ = board_html(board_at(path), FakeAsker(0, END_SECONDS))
    assert page.count('<div class="panel"') == len(panels_of(path))
    assert NO_DATA not in page
    assert "<b>" not in page and "NaN" not in page and "{{" not in page


def test_a_panel_without_data_says_so() -> None:
    page, _ = board_html(board_at(BOARDS[0]), Empty(0, END_SECONDS))
    assert page.count(NO_DATA) == len(panels_of(BOARDS[0]))


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.305, "percentunit", "30.5%"),
        (1_234_567, "Bps", "1.23 MB/s"),
        (0.0021, "s", "2.1 ms"),
        (90, "s", "90 s"),
        (1_500, "ms", "1.5 s"),
        (12, "short", "12"),
        (77.46, "cps", "77.5 /s"),
    ],
)
def test_a_value_is_short(value: float, unit: str, text: str) -> None:
    assert shown(value, unit) == text
