#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Draws what `orchard arena` wrote with --json: a picture for each family of cases, and a page with all of them.

    orchard arena --full --json arena.json
    profiling/report/plot_arena.py arena.json --output-dir pictures

A picture has a line for each allocator over what varies in the family (bytes or threads), or bars where nothing does; an
allocator with a fault has no point there. The page `arena.html` needs no other file: the header of the run, a matrix of
colours (allocator by case: how many times worse than the floor, or the fault), and the pictures. Needs matplotlib
(package python3-matplotlib). The same version of it writes the same bytes again.

Exit codes: 0 done; 1 matplotlib is not installed; 2 the file cannot be used (one line on standard error).
"""

import argparse
import html
import json
import math
import re
import sys
from pathlib import Path

import misshapen
from plot_uvm import INSTALL, Unusable, _pyplot, file_name, save

PROGRAM = "plot_arena.py"
NEEDED = {"allocator", "case", "bytes", "verdict", "unit", "value", "low", "high", "ratio_to_floor", "detail", "source"}
WORST = 100  # times the floor: the end of the colours
FAULTLESS = ("ok", "not offered", "not run")


def main(arguments=None, load_pyplot=None):
    parser = argparse.ArgumentParser(description="Draw what `orchard arena --json` wrote.")
    parser.add_argument("file", type=Path, help="what it wrote with --json")
    parser.add_argument("--output-dir", type=Path, default=Path("."), metavar="FOLDER")
    options = parser.parse_args(arguments)
    try:
        document = read_document(options.file)
        pyplot = (load_pyplot or _pyplot)()
    except Unusable as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 2
    except ImportError as error:
        print(f"{PROGRAM}: {error}; matplotlib draws: {INSTALL}", file=sys.stderr)
        return 1
    options.output_dir.mkdir(parents=True, exist_ok=True)
    pictures = []
    for family, rows in families_of(document["rows"]).items():
        path = options.output_dir / f"arena-{file_name(family)}.svg"
        save(pyplot, path, draw, family, rows)
        pictures.append((family, path.read_text()))
    path = options.output_dir / "arena.html"
    path.write_text(page_of(document, pictures))
    print(path)
    return 0


def read_document(path):
    """The document of a result, with rows that have all that is drawn. Raises Unusable."""
    try:
        document = json.loads(path.read_text())
        rows = misshapen.rows_of(document)
        complete = isinstance(document, dict) and bool(rows) and not any(NEEDED - row.keys() for row in rows)
        if complete:
            for row in rows:
                float(row["bytes"])
                for key in ("value", "low", "high", "ratio_to_floor"):
                    if row[key] is not None:
                        float(row[key])
                for key in ("allocator", "case", "verdict", "unit"):
                    if not isinstance(row[key], str):
                        raise TypeError(key)
    except OSError as error:
        raise Unusable(f"{path}: {error.strerror}") from None
    except misshapen.ERRORS:
        raise Unusable(f"{path} is no result of `orchard arena --json`") from None
    if not complete:
        raise Unusable(f"{path} has no rows, or rows without {', '.join(sorted(NEEDED))}")
    return document


def families_of(rows):
    """{family: rows} of the cases that have a value, in the order of the file. A family is a case's name up to the last
    slash."""
    families = {}
    for row in rows:
        if row["value"] is not None and row["verdict"] == "ok":
            families.setdefault(row["case"].rpartition("/")[0] or row["case"], []).append(row)
    return families


def varying(case):
    """What varies in a case, as a number: "winter_9a/64" is 64, "winter_10/2^4" is 16; None where it is no number."""
    match = re.fullmatch(r".*/(?:(\d+)\^)?(\d+)", case)
    if not match:
        return None
    return int(match[1]) ** int(match[2]) if match[1] else int(match[2])


def lines_of(rows):
    """{allocator: ([x], [median], [low], [high])}, by x; x is None where something other than a number varies."""
    lines = {}
    for row in sorted(rows, key=lambda row: varying(row["case"]) or 0):
        for part, value in zip(lines.setdefault(row["allocator"], ([], [], [], [])),
                               (varying(row["case"]), row["value"], row["low"], row["high"])):
            part.append(value)
    return lines


def errors_of(rows):
    """[[below], [above]] the median: the quartiles of each row, as bars of errors take them."""
    known = [[row["value"] if row[key] is None else row[key] for key in ("low", "value", "high")] for row in rows]
    return [[max(value - low, 0) for low, value, _ in known], [max(high - value, 0) for _, value, high in known]]


def what_varies(family, rows):
    """The label of the axis of the numbers in the cases' names."""
    others = {"xmalloc_2": "lanes of a warp", "kma_6.1": "rounds"}
    return others.get(family) or ("bytes" if len({row["bytes"] for row in rows}) > 1 else "threads")


def draw(pyplot, family, rows):
    lines = lines_of(rows)
    numbers = {x for line in lines.values() for x in line[0]}
    unit = rows[0]["unit"]
    is_curve = None not in numbers and len(numbers) > 1
    figure, axes = pyplot.subplots(figsize=(4.5, 3 if is_curve else max(3, 0.13 * len(rows))))
    if is_curve:
        colors = pyplot.get_cmap("tab20").colors  # with more allocators than colours, the later ones have other lines
        axes.set_prop_cycle(pyplot.cycler(linestyle=["-", "--"]) * pyplot.cycler(color=colors))
        for allocator, (x, median, low, high) in lines.items():
            axes.plot(x, median, marker="o", markersize=3, label=allocator)
            axes.fill_between(x, low, high, alpha=0.2)
        axes.set_xscale("log", base=2)
        axes.set_xlabel(what_varies(family, rows))
        if unit != "percent":
            axes.set_yscale("log")
        axes.set_ylabel(unit)
        axes.legend(fontsize=6, loc="center left", bbox_to_anchor=(1.02, 0.5))
    else:  # a bar begins at 0, so that its scale is linear
        names = [f"{row['allocator']} {row['case'][len(family) + 1:]}".strip() for row in rows]
        axes.barh(range(len(rows)), [row["value"] for row in rows], xerr=errors_of(rows), ecolor="#444444", capsize=1.5)
        axes.set_yticks(range(len(rows)), names, fontsize=6)
        axes.invert_yaxis()
        axes.set_xlabel(unit)
    axes.set_title(f"{family}: {rows[0]['source']}")
    return figure


def colour_of(row):
    """The colour of a row in the matrix: green for the floor's figure, red for WORST times it; grey for a fault."""
    if row["verdict"] not in FAULTLESS:
        return "#444444"
    if row["ratio_to_floor"] is None:
        return "#eeeeee"
    place = min(max(math.log(max(row["ratio_to_floor"], 1e-9)) / math.log(WORST), 0), 1)
    return f"hsl({round(120 * (1 - place))}, 70%, 70%)"


def word_of(row):
    """The text of a row in the matrix."""
    if row["verdict"] not in FAULTLESS:
        return row["verdict"]
    return "" if row["ratio_to_floor"] is None else f"{row['ratio_to_floor']:.3g}"


def matrix_of(rows):
    """The matrix as a table of HTML; a cell says more under the pointer."""
    allocators = list(dict.fromkeys(row["allocator"] for row in rows))
    cases = list(dict.fromkeys(row["case"] for row in rows))
    found = {(row["case"], row["allocator"]): row for row in rows}
    lines = ["<table><tr><th></th>" + "".join(f"<th>{html.escape(a)}</th>" for a in allocators) + "</tr>"]
    for case in cases:
        cells = []
        for allocator in allocators:
            row = found.get((case, allocator))
            if row is None:
                cells.append("<td></td>")
                continue
            value = "" if row["value"] is None else f"{row['value']:.4g} {row['unit']}"
            more = html.escape(" ".join(filter(None, (row["verdict"], value, str(row["detail"])))), quote=True)
            dark = " color:#fff;" if row["verdict"] not in FAULTLESS else ""
            cells.append(f'<td style="background:{colour_of(row)};{dark}" title="{more}">{html.escape(word_of(row))}</td>')
        lines.append(f"<tr><th>{html.escape(case)}</th>{''.join(cells)}</tr>")
    return "\n".join(lines + ["</table>"])


def header_of(document):
    """Lines about the run."""
    for key in ("command", "commit", "version"):
        if key in document:
            yield key, str(document[key])
    for key, member, without in (("commits of the rows", "commit", "not recorded"), ("code of others", "code", None)):
        found = allocators_by(document["rows"], member, without)
        if found and {str(row.get(member)) for row in document["rows"]} != {str(document.get("commit"))}:
            yield key, found
    for key in ("device", "options"):
        if isinstance(document.get(key), dict):
            yield key, ", ".join(f"{name}: {value}" for name, value in document[key].items())
    machine = document.get("machine") if isinstance(document.get("machine"), dict) else {}
    yield from machine_lines(machine)


def allocators_by(rows, member, without):
    """The values of a member and the allocators whose rows have each; "" if no row has one. `without`: the word for rows
    that have none; None leaves them out."""
    found = {}
    for row in rows:
        value = row.get(member) or ""
        found.setdefault(value if isinstance(value, str) else str(value), set()).add(row["allocator"])
    nameless = found.pop("", None)
    if found and nameless and without:
        found[without] = nameless
    return "; ".join(f"{value} ({', '.join(sorted(names))})" for value, names in sorted(found.items()))


def machine_lines(machine):
    """The processor, the GPUs and the driver in words, of the member "machine"."""
    host, cuda, gpus = (machine.get(key) for key in ("host", "cuda", "gpus"))
    if isinstance(host, dict) and "cpu" in host:
        yield "host", f"{host['cpu']}, {host.get('usable_cores', '?')} cores"
    for gpu in gpus if isinstance(gpus, list) else []:
        if isinstance(gpu, dict) and isinstance(gpu.get("memory_bytes", 0), (int, float)):
            yield "GPU", (f"{gpu.get('name')}, compute capability {gpu.get('compute_capability')}, "
                          f"{gpu.get('memory_bytes', 0) / 2**30:.4g} GiB, {gpu.get('multiprocessors')} multiprocessors")
    if isinstance(cuda, dict) and cuda.get("driver_version"):
        driver = f"{cuda['driver']} " if cuda.get("driver") else ""
        yield "driver", (f"{driver}for CUDA {version_text(cuda['driver_version'])}, built with CUDA "
                         f"{version_text(cuda.get('runtime_version'))}")


def version_text(version):
    """13000 as "13.0"."""
    return f"{version // 1000}.{version % 1000 // 10}" if isinstance(version, int) else "unknown"


def page_of(document, pictures):
    """The whole page. `pictures`: [(family, SVG)]."""
    header = "".join(f"<li><b>{html.escape(key)}</b> {html.escape(value)}</li>" for key, value in header_of(document))
    # From the element on: a declaration of XML may not stand in the middle of a page. Names in a picture differ from
    # those of the others, since each begins with its family.
    drawn = "".join(f"<h2>{html.escape(family)}</h2>{unique(svg[svg.index('<svg'):], file_name(family))}"
                    for family, svg in pictures)
    device = document.get("device")
    emulated = isinstance(device, dict) and device.get("kind") == "emulated"
    note = "<p>Times of the emulated device say nothing of a GPU.</p>" if emulated else ""
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Orchard: arena</title><style>
body {{ font: 14px sans-serif; margin: 2em; }}
table {{ border-collapse: collapse; }}
td, th {{ padding: 2px 6px; border: 1px solid #fff; font-size: 12px; text-align: right; }}
</style></head><body><h1>Arena</h1><ul>{header}</ul>{note}
<h2>Times as much as the floor</h2>
<p>Green: as the floor. Red: {WORST} times as much or more. Dark: a fault.</p>
{matrix_of(document["rows"])}
{drawn}
</body></html>
"""


def unique(svg, prefix):
    """An SVG whose names begin with a prefix, so that several can stand in one page."""
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r'href="#', f'href="#{prefix}-', svg)
    return re.sub(r"url\(#", f"url(#{prefix}-", svg)


if __name__ == "__main__":
    sys.exit(main())
