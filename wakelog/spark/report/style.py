"""The page's style: one sheet, light and dark, and for paper.

Colours are those of Okabe and Ito, which people with any kind of sight tell apart, and grey for
what is everything else.
"""

from __future__ import annotations

from typing import Final

_LIGHT: Final = ("#0072b2", "#d98a00", "#009e73", "#c0609a", "#45a5d8", "#d55e00", "#8a8f98")
_DARK: Final = ("#3d9de0", "#e8a33d", "#2bb893", "#d488b5", "#86cbf0", "#f0803c", "#8d97a3")


def _named(colours: tuple[str, ...]) -> str:
    return " ".join(f"--k{i}: {colour};" for i, colour in enumerate(colours))


_SHEET: Final = """
:root { color-scheme: light dark; --ink: #1d2329; --soft: #5b6570; --line: #dfe3e8;
  --page: #f6f7f9; --card: #ffffff; LIGHT }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ed; --soft: #9aa4af; --line: #333a43; --page: #15181c; --card: #1e2329;
    DARK }
}
@media print { :root { --page: #ffffff; } figure { break-inside: avoid; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 24px 20px 48px; }
h1 { font-size: 24px; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 19px; margin: 36px 0 2px; }
h3 { font-size: 15px; margin: 0 0 4px; overflow-wrap: anywhere; }
p { margin: 0 0 12px; color: var(--soft); }
code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: 0.92em; }
ul { list-style: none; margin: 0; padding: 0; }
.tiles { display: flex; flex-wrap: wrap; gap: 12px; }
.tiles li { background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: 8px 18px; min-width: 108px; }
.tiles b { display: block; font-size: 22px; font-variant-numeric: tabular-nums; }
.tiles span { color: var(--soft); font-size: 13px; }
.pictures { display: grid; gap: 16px; grid-template-columns: repeat(auto-fill, minmax(min(100%,
  480px), 1fr)); align-items: start; }
.wide { grid-column: 1 / -1; }
figure, .wide { margin: 0; background: var(--card); border: 1px solid var(--line);
  border-radius: 8px; padding: 12px 14px; overflow-x: auto; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 16px; font-size: 13px; color: var(--soft); }
.legend i { display: inline-block; width: 11px; height: 11px; border-radius: 2px;
  margin-right: 6px; overflow: hidden; }
figure svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--soft); font-size: 11.5px; font-variant-numeric: tabular-nums; }
.grid { stroke: var(--line); stroke-width: 1; }
.tick { stroke: var(--soft); stroke-width: 1; }
polyline { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
.slot { fill: transparent; }
.slot:hover { fill: var(--soft); fill-opacity: 0.14; }
table { border-collapse: collapse; font-size: 13px; width: 100%; }
th { text-align: left; color: var(--soft); font-weight: 600; }
th, td { padding: 3px 12px 3px 0; border-bottom: 1px solid var(--line); vertical-align: top;
  overflow-wrap: anywhere; }
tr:last-child td { border-bottom: 0; }
td:first-child { min-width: 9em; }
.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.keys td { vertical-align: middle; }
.bar { width: 32%; padding-right: 0; }
.bar svg { height: 10px; }
details { margin-top: 6px; font-size: 13px; }
summary { color: var(--soft); cursor: pointer; }
details table { margin-top: 6px; }
"""

STYLE: Final = _SHEET.replace("LIGHT", _named(_LIGHT)).replace("DARK", _named(_DARK)) + "".join(
    f".c{i} {{ fill: var(--k{i}); }} .l{i} {{ stroke: var(--k{i}); }} "
    f".k{i} {{ background: var(--k{i}); }}\n"
    for i in range(len(_LIGHT))
)
