"""A loss curve as text."""

from __future__ import annotations

import math
from collections.abc import Iterable

Point = tuple[int, float]  # step, loss

WIDTH = 80
HEIGHT = 16
MARGIN = 8  # columns of the labels, the axis included
LEGEND = "* loss   o evaluation loss   1 2 .. a job begins   x a rank was killed or stopped"


def draw(
    losses: Iterable[Point],
    evaluations: Iterable[Point] = (),
    jobs: Iterable[int] = (),
    killed: Iterable[int] = (),
    width: int = WIDTH,
    height: int = HEIGHT,
) -> str:
    """The chart, no line longer than width: losses over steps, and under them where jobs began and ranks died.

    `jobs` and `killed` are steps; jobs are numbered from 1 in the order given. A column shows the mean of the points
    that fall into it, and points that are no numbers are left out. Without any point: one line that says so.
    """
    curve, tests = _finite(losses), _finite(evaluations)
    if not curve + tests:
        return "no loss has been logged"
    begins, deaths = list(jobs), list(killed)
    columns = width - MARGIN
    last = max(1, *(step for step, _ in curve + tests), *begins, *deaths)
    low, high = _bounds(curve + tests)

    def column(step: int) -> int:
        return round(step / last * (columns - 1))

    grid = [[" "] * columns for _ in range(height)]
    for points, mark in ((curve, "*"), (tests, "o")):
        for at, value in _means((column(step), value) for step, value in points).items():
            grid[round((high - value) / (high - low) * (height - 1))][at] = mark
    labels = {0: f"{high:.2f}", height - 1: f"{low:.2f}", (height - 1) // 2: f"{(high + low) / 2:.2f}"}
    lines = [f"{labels.get(row, ''):>{MARGIN - 2}} |" + "".join(cells) for row, cells in enumerate(grid)]
    axis = ["-"] * columns
    for step in deaths:
        axis[column(step)] = "x"
    lines.append(" " * (MARGIN - 1) + "+" + "".join(axis))
    lines.append(" " * MARGIN + _numbers([column(step) for step in begins], columns))
    lines.append(" " * MARGIN + f"step 0{last:>{columns - 6}}")
    lines.append(" " * MARGIN + LEGEND)
    return "\n".join(line.rstrip() for line in lines)


def _finite(points: Iterable[Point]) -> list[Point]:
    return [(step, value) for step, value in points if math.isfinite(value)]


def _bounds(points: list[Point]) -> tuple[float, float]:
    """Lowest and highest loss, apart even if all are one."""
    values = [value for _, value in points]
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _means(points: Iterable[Point]) -> dict[int, float]:
    """The mean of the values in each column that has any."""
    by_column: dict[int, list[float]] = {}
    for at, value in points:
        by_column.setdefault(at, []).append(value)
    return {at: sum(values) / len(values) for at, values in by_column.items()}


def _numbers(at: list[int], columns: int) -> str:
    """1, 2, ... at those columns, moved to the right where two would touch, cut where there is no room left."""
    row = ""
    for number, column in enumerate(at, start=1):
        row = row.ljust(column) if len(row) < column or not row else row + " "
        row += str(number)
    return row[:columns]
