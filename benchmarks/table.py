"""The tables of ``results/table.md``, made from the results' files and from nothing else."""

from collections.abc import Mapping
from typing import Any

from benchmarks.results import Result, missed
from benchmarks.rows import ROWS, Figure, Row

PICTURE_NAME = "ratios.svg"
BUSY_SHOWN_MAX = 3
_HEAD = "| {first} | wakelog | RocketMQ | ratio | least to greatest | promised |"
_RULE = "| --- | ---: | ---: | ---: | ---: | ---: |"


def render_page(results: Mapping[str, Result]) -> str:
    """Return the page: what each row is about, all figures row by row, and who was busy."""
    lines = [
        "# Results",
        "",
        "Written by `./dev bench` from the JSON files beside it. Medians of the pairs; a ratio is",
        "taken within a pair and is above 1 where wakelog is better, for times and costs too.",
        "[How to read them](../README.md).",
        "",
        f"![The ratio of each row, with its spread]({PICTURE_NAME})",
        "",
        _HEAD.format(first="row, figure"),
        _RULE,
    ]
    rows = [row for row in ROWS if row.name in results]
    for row in rows:
        lines.append(_line(row, row.figures[0], results[row.name], title=row.name))
    waiting = [row.name for row in ROWS if row.name not in results]
    if waiting:
        lines += ["", "Not measured yet:", "", *(f"- {name}" for name in waiting)]
    for row in rows:
        lines += ["", *_section(row, results[row.name])]
    return "\n".join(lines) + "\n"


def summary_line(row: Row, result: Result) -> str:
    """Return what a terminal shows of a row."""
    if not result["summary"]:
        return f"{row.name:14} void: {result['void'][-1]}"
    parts = []
    for figure in row.figures:
        summary = result["summary"][figure.name]
        if "ratio" in summary and (figure is row.figures[0] or figure.required is not None):
            ratio = summary["ratio"]
            own, other = (name for name in summary if name != "ratio")
            parts.append(
                f"{figure.unit}: {_number(summary, own)} against "
                f"{_number(summary, other)}, {ratio['median']:.2f} "
                f"[{ratio['min']:.2f}, {ratio['max']:.2f}]"
            )
    missing = missed(row, result)
    verdict = f"  MISSED: {', '.join(missing)}" if missing else ""
    return f"{row.name:14} {'; '.join(parts)}; void {len(result['void'])}{verdict}"


def _section(row: Row, result: Result) -> list[str]:
    machine = result["machine"]
    sound, void = len(result["pairs"]), len(result["void"])
    lines = [
        f"## {row.name}",
        "",
        f"Driven by {row.kind.value}. Pairs: {sound}, void: {void}. {result['measured']}, "
        f"{machine['cores']} cores of {machine['processor']}, {machine['file_system']}, "
        f"Linux {machine['kernel']}, {_python(machine)}, Ray {machine['ray']}, {machine['java']}.",
        "",
        _HEAD.format(first="figure"),
        _RULE,
        *(_line(row, figure, result) for figure in row.figures),
    ]
    for name, title in (("wakelog", "wakelog"), ("rocketmq", "RocketMQ")):
        lines += _busy(title, [pair[name] for pair in result["pairs"]])
    return lines


def _python(machine: Mapping[str, Any]) -> str:
    """Return interpreter, build, twin, and what computed beside it, as far as they are known."""
    parts = [f"Python {machine['python']}"]
    if "python_build" in machine:
        parts.append(f"({machine['python_build']}) with {machine['twin']}")
    if busy_count := machine.get("busy_processes"):
        parts.append(f"beside {busy_count} processes that compute all the time")
    return " ".join(parts)


def _line(row: Row, figure: Figure, result: Result, title: str = "") -> str:
    summary = result["summary"].get(figure.name, {})
    ratio = summary.get("ratio")
    shown, spread = "", ""
    if ratio:
        late = figure.name in missed(row, result)
        shown = f"{ratio['median']:.2f}" if not late else f"**{ratio['median']:.2f}**"
        spread = f"{ratio['min']:.2f} to {ratio['max']:.2f}"
    promised = "" if figure.required is None else f"{figure.required}"
    if figure.most is not None:
        promised = f"at most {figure.most:g}"
    first = f"{title}, {figure.unit}" if title else figure.unit
    numbers = [_number(summary, side) for side in ("wakelog", "rocketmq")]
    return f"| {' | '.join([first, *numbers, shown, spread, promised])} |"


def _number(summary: Mapping[str, Any], side: str) -> str:
    if side not in summary:
        return ""
    value = summary[side]["median"]
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _busy(title: str, runs: list[dict[str, Any]]) -> list[str]:
    """Name the busiest processes of a side's median run, in per cent of a core."""
    shares: dict[str, list[float]] = {}
    for run in runs:
        for role, share in run["busy_percent"].items():
            shares.setdefault(role, []).append(share)
    means = {role: sum(found) / len(runs) for role, found in shares.items()}
    busiest = sorted(means.items(), key=lambda item: -item[1])[:BUSY_SHOWN_MAX]
    if not busiest:
        return []
    shown = ", ".join(f"{role} {share:.0f} %" for role, share in busiest)
    return ["", f"Busy with {title}, of a core: {shown}."]
