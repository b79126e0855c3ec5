# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""The tables of docs/uvm_paper.md, from the data that paper_figures.py stored. Each is a function of that data.

Rows are those of paper_figures.py: what was run (pattern, way, ...) and its counts. Ways are named there.
"""

import markdown

STEP_S = 600e-9  # of a step that hits, in the model (docs/uvm_model.md)
PAGE = 4096
PLATFORMS = {"titan_v": "Titan V", "h200": "H200"}
PATTERNS = {"random": "independent", "same-index": "in step", "graph-walk": "walk"}
MEASURED = {"each lane its own random offset": "independent", "same random offset in a warp": "in step"}


class Missing(Exception):
    """A row that is wanted is not there, or not once."""


def pick(rows, **where):
    return [row for row in rows if all(row[key] == value for key, value in where.items())]


def one(rows, **where):
    found = pick(rows, **where)
    if len(found) != 1:
        raise Missing(f"{len(found)} rows instead of one for {where}")
    return found[0]


def size_text(number):
    """"512 B", "64 KiB", "16 MiB"."""
    for unit, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= size:
            return f"{number / size:g} {unit}"
    return f"{number} B"


def table(heads, lines):
    """Markdown; columns from the second on are numbers."""
    return markdown.as_table(heads, [False, True], lines)


def ms(row):
    milliseconds = row["seconds"] * 1e3
    return f"{milliseconds:,.0f}" if milliseconds >= 100 else f"{milliseconds:.2f}"


def mb(row, key="bytes_in"):
    return f"{row[key] / 1e6:,.0f}"


def percent(share):
    return f"{100 * share:.0f} %"


def faster(slow, fast):
    """How often `fast` goes into `slow`."""
    ratio = slow["seconds"] / fast["seconds"]
    return f"{ratio:.1f}x" if ratio >= 10 else f"{ratio:.2f}x"


def scale_of(row):
    return row["bytes_per_thread"] // 8192


def baseline(row):
    """Seconds of the same accesses where nothing is paged: all warps are resident, and step by step."""
    return row["accesses"] * STEP_S


def figure_1(data):
    rows = pick(data["walk"], pattern="graph-walk", way="linear", machine="titan_v")
    return table(["graph scale", "MB", "ms", "times the accesses alone"],
                 [[str(scale_of(row)), f"{row['threads'] * row['bytes_per_thread'] / 1e6:,.0f}", ms(row),
                   f"{row['seconds'] / baseline(row):,.0f}"] for row in rows])


def figure_3a(data):
    rows = pick(data["walk"], pattern="graph-walk", way="linear", machine="titan_v")
    return table(["graph scale", "faults", "VA blocks serviced", "MB moved", "4 KiB pages used", "VA blocks"],
                 [[str(scale_of(row)), f"{row['faults']:,}", f"{row['block_services']:,}", mb(row),
                   percent(row["useful_page_share"]), f"{row['peak_active_blocks']:,}"] for row in rows])


def figure_3b(data):
    return table(["padding", "bytes a thread", "faults a thread", "4 KiB pages moved a thread", "of them used"],
                 [[size_text(row["element"]), size_text(row["bytes_per_thread"]),
                   f"{row['faults'] / row['threads']:.1f}", f"{row['bytes_in'] / PAGE / row['threads']:.0f}",
                   percent(row["useful_page_share"])] for row in data["sparsity"]])


def figure_4(data):
    def names(leaves):
        return ", ".join(str(leaf) for leaf in leaves) or "none"
    return table(["fault on leaf", "prefetched", "on the GPU after it"],
                 [[str(step["fault"]), names(step["prefetched"]), names(step["resident"])]
                  for step in data["theorems"]["figure_4"]])


def figure_4_batches(data):
    return table(["faults that a micro-TLB shows", "faults on leaves 0 and 1", "batches"],
                 [["14" if "14" in row["machine"] else "56", f"{row['faults']}", f"{row['batches']}"]
                  for row in data["batches"]])


def figure_7(data):
    found = data["theorems"]["figure_7"]
    return table(["8 leaves, every batch of faults", "arrangements", "services", "prefetch of another's leaf"],
                 [["padded, as equation (3) says", f"{found['arrangements']}", f"{found['services']:,}",
                   f"{found['crossings']:,}"],
                  ["two warptrees side by side", "1", f"{found['packed_services']:,}",
                   f"{found['packed_crossings']:,}"]])


def figure_12(data):
    lines = []
    for size in (512, 4 << 10, 16 << 10, 64 << 10, 512 << 10, 2 << 20):
        line = [size_text(size)]
        for pattern in ("random", "same-index"):
            here = pick(data["range"], pattern=pattern, bytes_per_thread=size)
            linear, tiles, small = (one(here, way=way) for way in ("linear", "tiles", "small tiles"))
            line += [ms(linear), ms(tiles), faster(linear, tiles)] + ([ms(small)] if pattern != "random" else [])
        lines.append(line)
    return table(["range of a thread", "independent: linear, ms", "64 KiB tiles", "gain", "in step: linear, ms",
                  "64 KiB tiles", "gain", "4 KiB tiles"], lines)


def figure_13(data):
    lines = []
    for pattern in ("random", "same-index"):
        for size in (1 << 20, 4 << 20, 8 << 20, 16 << 20):
            here = pick(data["large"], pattern=pattern, bytes_per_thread=size, machine="titan_v")
            linear, tiles = (one(here, way=way) for way in ("linear", "tiles"))
            lines.append([f"{PATTERNS[pattern]}, {size_text(size)}"] +
                         [f"{linear[key]:,} / {tiles[key]:,}" for key in ("faults", "batches", "block_services")] +
                         [f"{mb(linear)} / {mb(tiles)}"] +
                         [f"{percent(linear[key])} / {percent(tiles[key])}"
                          for key in ("useful_big_page_share", "useful_page_share")])
    return table(["linear / 64 KiB tiles", "faults", "batches", "VA blocks serviced", "MB moved", "64 KiB used",
                  "4 KiB used"], lines)


def measured(data, threads, bytes_a_thread, pattern):
    """The rows of linear, 64 KiB and 4 KiB tiles, on an H200."""
    here = pick(data["h200_ranges"], threads=threads, bytes_a_thread=bytes_a_thread, pattern=pattern)
    return [one(here, layout=layout) for layout in ("linear", "interleaved:64K", "interleaved:4K")]


def figure_12_h200(data):
    lines = []
    for size in (512, 4 << 10, 16 << 10, 64 << 10, 512 << 10, 2 << 20):
        line = [size_text(size)]
        for pattern in MEASURED:
            linear, tiles, small = (row["ms"] for row in measured(data, 1024, size, pattern))
            line += [f"{linear:.3g}", f"{tiles:.3g}", f"{linear / tiles:.2f}x", f"{small:.3g}"]
        lines.append(line)
    return table(["range of a thread", "independent: linear, ms", "64 KiB tiles", "gain", "4 KiB tiles",
                  "in step: linear, ms", "64 KiB tiles", "gain", "4 KiB tiles"], lines)


def figure_13_h200(data):
    lines = []
    for pattern, name in MEASURED.items():
        for size in (1 << 20, 4 << 20, 8 << 20, 16 << 20):
            rows = measured(data, 128, size, pattern)
            lines.append([f"{name}, {size_text(size)}"] +
                         [" / ".join(f"{row[key]:{form}}" for row in rows)
                          for key, form in (("ms", ".3g"), ("moved_mb", ".0f"), ("used_64k", ".0f"), ("used_4k", ".0f"))])
    return table(["linear / 64 KiB / 4 KiB tiles", "ms", "MB moved", "64 KiB used, %", "4 KiB used, %"], lines)


def figure_10a_h200(data):
    lines = []
    for size in sorted({row["bytes_from"] for row in data["h200_sizes"]}):
        line = [f"{size_text(size)} to {size_text(2 * size)}"]
        for layout in ("linear", "interleaved:64K"):
            row = one(data["h200_sizes"], bytes_from=size, layout=layout)
            line += [f"{row['cold_us']:,.0f}", f"{row['recycled_us']:,.0f}", f"{row['free_us']:.1f}"]
        lines.append(line)
    return table(["bytes a thread", "linear, from the host, us", "recycled", "free", "64 KiB tiles, from the host, us",
                  "recycled", "free"], lines)


LAYOUT_NAMES = {"linear": "linear", "interleaved:4": "4 B tiles", "interleaved:64K": "64 KiB tiles"}


def figure_10b_h200(data):
    lines = [[LAYOUT_NAMES[row["layout"]], row["mode"]] +
             [f"{row[key]:,.0f}" for key in ("iteration_first_us", "iteration_third_us", "iteration_tenth_us",
                                             "iteration_settled_us")] for row in data["h200_iterations"]]
    return table(["layout", "what is kept", "first, us", "3rd", "10th", "settled"], lines)


def figure_11_h200(data):
    lines = []
    for threads in sorted({row["threads"] for row in data["h200_scaling"]}):
        line = [f"{threads:,}"]
        for size in (1024, 8192):
            for layout in LAYOUT_NAMES:
                row = one(data["h200_scaling"], threads=threads, bytes=size, layout=layout)
                line += [f"{row['allocate_us']:,.1f}"]
        lines.append(line)
    return table(["threads", "1 KB, linear, us", "4 B tiles", "64 KiB tiles", "8 KB, linear, us", "4 B tiles",
                  "64 KiB tiles"], lines)


def figure_13_order(data):
    lines = []
    for machine, limit in (("titan_v", "56"), ("titan_v, utlb_faults=14", "14")):
        here = pick(data["large"], pattern="same-index", bytes_per_thread=4 << 20, machine=machine)
        plain, ordered = (one(here, way=way) for way in ("tiles", "ordered"))
        lines.append([limit] + [f"{plain[key]:,} / {ordered[key]:,} ({100 * (1 - ordered[key] / plain[key]):.0f} % "
                                "fewer)" for key in ("faults", "batches")])
    return table(["faults that a micro-TLB shows", "faults: ascending / its order", "batches"], lines)


def figure_13c(data):
    lines = []
    for row in pick(data["padding"], way="unpadded"):
        tiles = one(data["padding"], way="tiles", bytes_per_thread=row["bytes_per_thread"])
        if row["bytes_per_thread"] >= 8 << 10:
            lines.append([size_text(row["bytes_per_thread"]), str(row["peak_active_blocks"]),
                          str(tiles["peak_active_blocks"])])
    return table(["bytes a thread", "VA blocks, packed", "VA blocks, padded"], lines)


def figure_13d(data):
    lines = []
    for tile in ("linear", "4 B tile", "16 B tile"):
        here = pick(data["access"], layout=tile, threads=32)
        lines.append([tile] + [f"{one(here, by=by)['over_raw_ns'] / 1e3:.2f}" for by in ("lane_ptr", "lane_array")])
    return table(["H200, one warp", "`lane_ptr`, us more", "`lane_array`, us more"], lines)


def figure_14(data):
    lines = []
    for pattern in ("random", "same-index"):
        for depth in (60, 100, 420):
            here = pick(data["oversubscribed"], pattern=pattern, accesses=depth)
            linear, tiles, small = (one(here, way=way) for way in ("linear", "tiles", "small tiles"))
            lines.append([f"{PATTERNS[pattern]}, {depth}", ms(linear), ms(tiles), faster(linear, tiles), mb(linear),
                          mb(tiles), f"{linear['evictions']:,}", f"{tiles['evictions']:,}", ms(small), mb(small)])
    return table(["accesses", "linear, ms", "64 KiB tiles", "gain", "linear, MB", "64 KiB tiles", "linear, evictions",
                  "64 KiB tiles", "4 KiB tiles, ms", "MB"], lines)


def figure_15(data):
    lines = []
    for scale in (1, 8, 32, 128):
        line = [str(scale)]
        for pattern in ("graph-walk", "same-index"):
            for machine in PLATFORMS:
                here = pick(data["walk"], pattern=pattern, machine=machine, bytes_per_thread=8192 * scale)
                linear, tiles = (one(here, way=way) for way in ("linear", "tiles"))
                line += [f"{ms(linear)} / {ms(tiles)}", faster(linear, tiles)]
        lines.append(line)
    heads = [head for pattern in ("walk", "in step") for name in PLATFORMS.values()
             for head in (f"{pattern}, {name}: linear / tiles, ms", "gain")]
    return table(["graph scale", *heads], lines)


def gains(rows, name):
    """Of one pattern or application: the gain of tiles at each capacity."""
    line = [f"`{name}`"]
    for capacity in ("unlimited", "75%", "37.5%"):
        here = pick(rows, pattern=name, capacity=capacity)
        linear, tiles = (one(here, way=way) for way in ("linear", "tiles"))
        line += [f"{ms(linear)} / {ms(tiles)}", faster(linear, tiles)]
    return line


def names_of(rows):
    return list(dict.fromkeys(row["pattern"] for row in rows))


def figure_16(data):
    heads = ["linear / 64 KiB tiles", "fits: ms", "gain", "75 %: ms", "gain", "37.5 %: ms", "gain"]
    return table(heads, [gains(data[grid], name) for grid in ("applications", "streams")
                         for name in names_of(data[grid])])


def theorem_1(data):
    return table(["leaves", "batches of faults", "states", "that break it", "fullest node between half and all"],
                 [[n, "all" if int(n) <= 8 else "single", f"{found['cases']:,}", f"{found['failing']:,}",
                   f"{100 * found['worst_share']:.2f} %" if found["failing"] else "none"]
                  for n, found in sorted(data["theorems"]["theorem_1"].items(), key=lambda item: int(item[0]))])


def theorem_2(data):
    return table(["leaves", "batches of faults", "prefetches into a node", "with another cause"],
                 [[n, "all" if int(n) <= 8 else "single", f"{found['cases']:,}", f"{found['failing']:,}"]
                  for n, found in sorted(data["theorems"]["theorem_2"].items(), key=lambda item: int(item[0]))])


def theorem_3(data):
    lines = []
    for key, text in (("theorem_3_parent", "the parent"), ("theorem_3_any_node_above", "any node above")):
        for n, found in sorted(data["theorems"][key].items(), key=lambda item: int(item[0])):
            lines.append([f"{text}, {n} leaves", f"{found['cases']:,}", f"{found['sibling_not_full']:,}",
                          f"{found['node_empty']:,}"])
    return table(["the node that passes", "prefetches by the sibling's fault", "sibling not full", "node was empty"],
                 lines)


def tables(data):
    """{name in the page: markdown}."""
    makers = (figure_1, figure_3a, figure_3b, figure_4, figure_4_batches, figure_7, figure_10a_h200, figure_10b_h200,
              figure_11_h200, figure_12, figure_12_h200, figure_13, figure_13_h200, figure_13_order, figure_13c, figure_13d, figure_14, figure_15, figure_16, theorem_1, theorem_2, theorem_3)
    return {maker.__name__: maker(data) for maker in makers}
