#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Draws the layouts of warp chunks, for docs/layouts.md.

    profiling/report/plot_layouts.py --output-dir docs/pictures

Nothing is measured: every cell is placed by the formula of `uvm/geometry/layout.hpp`. Needs matplotlib (package
python3-matplotlib). The same version of it writes the same bytes again.

Exit codes: 0 done; 1 matplotlib is not installed.
"""

import argparse
import sys
from pathlib import Path

KIB = 1024
PAGE = 4 * KIB
INSTALL = "sudo apt-get install python3-matplotlib"
COLOURS = ("#a6cee3", "#fdbf6f", "#b2df8a", "#fb9a99", "#cab2d6", "#ffff99", "#d9d9d9", "#80cdc1")
STYLE = {"svg.fonttype": "none", "svg.hashsalt": "orchard", "font.size": 8}


def main(arguments=None, load_pyplot=None):
    parser = argparse.ArgumentParser(description="Draw the layouts of warp chunks.")
    parser.add_argument("--output-dir", type=Path, default=Path("."), metavar="FOLDER")
    options = parser.parse_args(arguments)
    try:
        pyplot = (load_pyplot or _pyplot)()
    except ImportError as error:
        print(f"plot_layouts.py: {error}; matplotlib draws: {INSTALL}", file=sys.stderr)
        return 1
    options.output_dir.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        with pyplot.rc_context(STYLE):
            figure = draw(pyplot)
            path = options.output_dir / f"{name}.svg"
            figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
            pyplot.close(figure)
        print(path)
    return 0


# --- where the bytes lie: the arithmetic of uvm/geometry/layout.hpp and uvm/geometry/lane_order.hpp ---

def rows_of(tile, lane_bytes, tail_rows=False):
    """[(tile, byte of each lane with which the row begins), ...] of a chunk of lanes of `lane_bytes`."""
    full = lane_bytes // tile
    rows = [(tile, k * tile) for k in range(full)]
    begin = full * tile
    if not tail_rows:
        return rows + ([(tile, begin)] if begin < lane_bytes else [])
    pages = -(-(lane_bytes - begin) // PAGE)
    while pages:
        size = PAGE << (pages.bit_length() - 1)
        rows.append((size, begin))
        begin += size
        pages -= size // PAGE
    return rows


def cells_of(rows, width):
    """[(offset in the chunk, bytes, position of the lane, row), ...], ascending."""
    cells = []
    for row, (tile, begin) in enumerate(rows):
        cells += [(begin * width + lane * tile, tile, lane, row) for lane in range(width)]
    return cells


def ragged_cells(pages, tile):
    """[(offset in the chunk, length, lane), ...] and the offset of the table, in OS pages, for lanes of `pages` pages and tiles
    of `tile`: the arithmetic of uvm/geometry/ragged_rows.hpp, where steps are tiles."""
    common = min(pages) // tile * tile
    behind = [n - common for n in pages]
    cells, at = [], 0
    for step in range(max(behind) // tile):
        for lane, n in enumerate(behind):
            if n // tile > step:
                cells.append((at, tile, lane))
                at += tile
    size = tile // 2
    while size:
        for lane, n in enumerate(behind):
            if n & size:
                cells.append((at, size, lane))
                at += size
        size //= 2
    begin = -(-(at + 1) // tile) * tile
    for row in range(common // tile):
        cells += [(begin + (row * len(pages) + lane) * tile, tile, lane) for lane in range(len(pages))]
    return cells, begin - 1


def prefetch_first(width):
    """The position of each lane in the paper's order."""
    return [p for p in (0, 1, 2) if p < width] + list(range(4, width, 2)) + list(range(3, width, 2))


# --- pictures ---

def draw_linear(pyplot):
    figure, axes = _canvas(pyplot, 8, 4, "linear: each lane's bytes in one piece (8 lanes, 4 elements each)")
    for lane in range(8):
        for k in range(4):
            cell = lane * 4 + k
            _cell(axes, cell % 8, cell // 8, 1, lane, f"lane {lane}\n[{k}]", bold=k == 0)
    _note(axes, 8, 4, "thick: what the lanes read in their first step")
    return figure


def draw_interleaved(pyplot):
    figure, axes = _canvas(pyplot, 8, 4, "tile of one element, 4 B: one step of all lanes is one row (8 lanes)")
    for offset, size, lane, row in cells_of(rows_of(4, 16), 8):
        _cell(axes, offset // size % 8, row, 1, lane, f"lane {lane}\n[{row}]", bold=row == 0)
    _note(axes, 8, 4, "thick: what the lanes read in their first step; with 32 lanes it is one line of 128 B")
    return figure


def draw_big_tiles(pyplot):
    figure, axes = _canvas(pyplot, 32, 2, "tile of 64 KiB, 32 lanes: a row is one VA block of 2 MiB")
    for _, _, lane, row in cells_of(rows_of(64 * KIB, 128 * KIB), 32):
        _cell(axes, lane, row, 1, lane, str(lane), bold=row == 0)
    for row in range(2):
        axes.text(32.3, row + 0.5, f"bytes {64 * row} to {64 * (row + 1)} KiB of every lane", va="center")
    _note(axes, 32, 2, "one cell is one big page; thick: what the driver services when the lanes begin together")
    return figure


def draw_tail_rows(pyplot):
    width, lane_bytes = 4, 84 * KIB
    figure, axes = _canvas(pyplot, 32, 2.6, "4 lanes of 84 KiB each, tile of 64 KiB")
    scale = 32 / (width * 128 * KIB)
    for line, (tail, text) in enumerate(((False, "whole tiles"), (True, "tail rows"))):
        cells = cells_of(rows_of(64 * KIB, lane_bytes, tail), width)
        for offset, size, lane, _ in cells:
            label = f"lane {lane}\n{size // KIB} KiB" if size > 16 * KIB else str(lane) if size > PAGE else ""
            _cell(axes, offset * scale, line * 1.4, size * scale, lane, label)
        held = sum(size for _, size, _, _ in cells) // KIB
        axes.text(32.3, line * 1.4 + 0.5, f"{text}: {held} KiB held", va="center")
    _note(axes, 32, 2.5, "in tail rows: 64 KiB tiles, then 16 KiB, then 4 KiB; all to scale")
    return figure


def draw_ragged(pyplot):
    pages, tile = (37, 16, 34, 21), 16
    cells, table = ragged_cells(pages, tile)
    figure, axes = _canvas(pyplot, 32, 1.2, "4 lanes of 148, 64, 136 and 84 KiB, tile of 64 KiB")
    scale = 32 / (table + 1 + len(pages) * tile)
    for offset, size, lane in cells:
        label = f"lane {lane}\n64 KiB" if size == tile else str(lane) if size > 1 else ""
        _cell(axes, offset * scale, 0, size * scale, lane, label, bold=offset > table)
    _cell(axes, table * scale, 0, scale, 7, "")
    axes.annotate("table", (table * scale + scale / 2, 0.9), (table * scale + scale / 2, 1.25), ha="center", va="center",
                  fontsize=7, arrowprops={"arrowstyle": "-", "linewidth": 0.5})
    _note(axes, 32, 1.3, "a step of two lanes; rests of 16, 8 and 4 KiB; a gap; thick: the row that all lanes fill; to scale")
    return figure


def draw_lane_orders(pyplot):
    width = 16
    figure, axes = _canvas(pyplot, width, 3.2, "which lane lies at which position (16 lanes)")
    for line, (name, positions) in enumerate((("ascending", list(range(width))),
                                              ("prefetch_first", prefetch_first(width)))):
        for lane, position in enumerate(positions):
            later = lane > width // 2
            _cell(axes, position, line * 1.4, 1, 6 if later else 2, str(lane), bold=not later)
        axes.text(width + 0.3, line * 1.4 + 0.5, name, va="center")
    for position in range(width):
        axes.text(position + 0.5, 2.6, str(position), ha="center", va="center", color="0.4")
    axes.text(width + 0.3, 2.6, "position", va="center", color="0.4")
    _note(axes, width, 3, "lanes fault in ascending order; thick: the first 9 of 16")
    return figure


PICTURES = {
    "layout_linear": draw_linear,
    "layout_4b": draw_interleaved,
    "layout_64k": draw_big_tiles,
    "layout_tail_rows": draw_tail_rows,
    "layout_ragged": draw_ragged,
    "layout_lane_orders": draw_lane_orders,
}


def _canvas(pyplot, columns, lines, title):
    """Axes in cells, the first line on top; addresses grow to the right, then downwards."""
    figure, axes = pyplot.subplots(figsize=(8, 0.5 * lines + 0.4))
    axes.set_xlim(0, columns)
    axes.set_ylim(lines, 0)
    axes.axis("off")
    axes.set_title(title, fontsize=9, loc="left")
    return figure, axes


def _cell(axes, x, y, width, lane, text, bold=False):
    from matplotlib.patches import Rectangle
    axes.add_patch(Rectangle((x, y), width, 0.9, facecolor=COLOURS[lane % len(COLOURS)], edgecolor="black",
                             linewidth=1.8 if bold else 0.5, clip_on=False, zorder=2 if bold else 1))
    if text:
        axes.text(x + width / 2, y + 0.45, text, ha="center", va="center", fontsize=7, zorder=3)


def _note(axes, columns, line, text):
    axes.text(columns / 2, line + 0.3, text, ha="center", va="center", color="0.3")


def _pyplot():
    import matplotlib
    matplotlib.use("Agg")  # files only: there may be no screen
    from matplotlib import pyplot
    return pyplot


if __name__ == "__main__":
    sys.exit(main())
