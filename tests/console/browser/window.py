"""Chromium over the console: started in a folder of its own, and pages that note what is wrong."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import ConsoleMessage, Page, Request, sync_playwright

from tests.compat.provision import chromium_program

WAIT_MS_MAX: Final = 20_000
"""How long an action of a page may take before its test fails."""
OPTIONS: Final = ("--disable-dev-shm-usage", "--disable-gpu", "--force-color-profile=srgb")
FAULTS: Final = frozenset({"serious", "critical"})
"""Impacts of axe's rules that are faults; what is moderate or minor is a matter of taste."""
_AXE: Final = Axe()
_VIOLATIONS: Final = """async (options) => (await axe.run(document, options)).violations.map(
  ({ id, help, impact, nodes }) => ({ id, help, impact, nodes: nodes.map((each) => each.html) }))"""
_FONTS: Final = """<?xml version="1.0"?>
<fontconfig>
<dir>{fonts}</dir>
<cachedir>{cache}</cachedir>
<alias binding="same"><family>system-ui</family><prefer><family>Inter</family></prefer></alias>
<alias binding="same"><family>sans-serif</family><prefer><family>Inter</family></prefer></alias>
<alias><family>ui-monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
<alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"""


class View(NamedTuple):
    """How wide a page is shown, and in which colours."""

    width: int
    scheme: Literal["light", "dark"]

    def __str__(self) -> str:
        """Name it, as in the id of a test."""
        return f"{self.width}-{self.scheme}"


WIDE, NARROW = 1440, 390
VIEWS: Final = (
    View(WIDE, "light"), View(WIDE, "dark"), View(NARROW, "light"), View(NARROW, "dark")
)  # fmt: skip
VIEW_HEIGHT: Final = 900


@contextmanager
def chromium_in(folder: Path) -> Iterator[Chromium]:
    """Yield a Chromium whose profile and caches are in a folder."""
    found = chromium_program()
    env: dict[str, str | float | bool] = {**found.env, "HOME": str(folder)}
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"):
        env[name] = str(folder)
    if found.fonts is not None:
        configuration = folder / "fonts.conf"
        text = _FONTS.format(fonts=found.fonts, cache=folder / "fontconfig")
        configuration.write_text(text, encoding="utf-8")
        env["FONTCONFIG_FILE"] = str(configuration)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=found.program, args=list(OPTIONS), env=env
        )
        try:
            yield chromium
        finally:
            chromium.close()


class Window:
    """A page of Chromium over one console. noted: what went wrong in it, in words."""

    def __init__(self, chromium: Chromium, url: str, *, has_script: bool = True) -> None:
        """Open nothing yet."""
        self.url = url
        self.noted: list[str] = []
        self._host = urlsplit(url).netloc
        self._context = chromium.new_context(
            java_script_enabled=has_script,
            viewport={"width": WIDE, "height": VIEW_HEIGHT},
            locale="en-GB",
            timezone_id="UTC",
            reduced_motion="reduce",
        )
        self._context.set_default_timeout(WAIT_MS_MAX)
        self.page = self._context.new_page()
        self.page.on("console", self._note_console)
        self.page.on("pageerror", lambda error: self.noted.append(f"script failed: {error}"))
        self.page.on("request", self._note_request)

    def begin(self) -> None:
        """Leave the page of another test, and forget what it noted."""
        self.page.unroute_all()
        self.page.goto("about:blank")
        self.show_as(VIEWS[0])
        self.noted.clear()

    def open(self, address: str) -> Page:
        """Show a page of the console."""
        self.page.goto(self.url + address, wait_until="load")
        return self.page

    def show_as(self, view: View) -> None:
        """Change width and colours of the page that is open."""
        self.page.set_viewport_size({"width": view.width, "height": VIEW_HEIGHT})
        self.page.emulate_media(color_scheme=view.scheme)

    def faults(self, rules: Sequence[str] | None = ()) -> Iterator[str]:
        """Yield what is wrong with the page as it is shown: faults of axe, and an overflow.

        rules: those of axe that are asked, all if it is empty; None to ask for no fault of axe.
        """
        if rules is not None:
            yield from self._faults_of_axe(rules)
        over = self.page.evaluate(_OVERFLOWING)
        if over:
            yield f"wider than the window: {over}"

    def _faults_of_axe(self, rules: Sequence[str]) -> Iterator[str]:
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(_AXE.axe_script)
        options = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
        for fault in self.page.evaluate(_VIOLATIONS, options):
            if fault["impact"] in FAULTS:
                nodes = "; ".join(node[:160] for node in fault["nodes"][:3])
                count = len(fault["nodes"])
                yield f"axe: {fault['id']} ({fault['help']}) at {count} places: {nodes}"

    def wait(self, what: str, true: Callable[[], bool]) -> None:
        """Wait until something is so, while the page goes on."""
        left_ms = WAIT_MS_MAX
        while not true():
            assert left_ms > 0, f"not {what} within {WAIT_MS_MAX} ms"
            self.page.wait_for_timeout(50)
            left_ms -= 50

    def close(self) -> None:
        """Close the page and forget its cookies."""
        self._context.close()

    def _note_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.noted.append(f"{message.type} of the page: {message.text}")

    def _note_request(self, request: Request) -> None:
        if urlsplit(request.url).netloc != self._host:
            self.noted.append(f"asks another host: {request.url}")


_OVERFLOWING: Final = """() => {
  const root = document.documentElement;
  if (root.scrollWidth <= root.clientWidth) return "";
  const wide = [...document.body.querySelectorAll("*")].filter(
    (each) => each.getBoundingClientRect().right > root.clientWidth + 1);
  return `${root.scrollWidth} px of ${root.clientWidth}: ` +
    wide.slice(0, 3).map((each) => each.outerHTML.slice(0, 120)).join("; ");
}"""
