# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""The pictures of docs/uvm_paper.md, from the data that paper_figures.py stored. Needs matplotlib.

Each `draw_*` fills the axes it is given; PICTURES says how many, and how the file is called.
"""

from paper_tables import PAGE, PATTERNS, PLATFORMS, baseline, names_of, one, pick, scale_of

STYLE = {"svg.fonttype": "none", "svg.hashsalt": "orchard", "font.size": 8, "axes.grid": True, "grid.alpha": 0.3}
COLOURS = {"linear": "#b5656b", "tiles": "#4c9f70", "ordered": "#5b8db8", "unpadded": "#8e7cc3",
           "small tiles": "#e0a458"}
NAMES = {"linear": "linear", "tiles": "64 KiB tiles", "ordered": "64 KiB tiles, its lane order",
         "unpadded": "64 KiB tiles, packed", "small tiles": "4 KiB tiles"}
DASHES = {"random": "--", "graph-walk": "--", "same-index": "-"}
LEAF = {"empty": "#ffffff", "resident": "#cccccc", "fault": "#b5656b", "prefetched": "#4c9f70",
        "another's": "#e0a458", "padding": "#f2f2f2"}


def pyplot():
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot as module
    return module


def line(axes, rows, x, y, label, way="linear", dash="-"):
    axes.plot([x(row) for row in rows], [y(row) for row in rows], dash, marker="o", markersize=2.5, linewidth=1.2,
              color=COLOURS[way], label=label)


def doublings(axes, label, title, log=True):
    axes.set_xscale("log", base=2)
    if log:
        axes.set_yscale("log")
    axes.minorticks_off()
    axes.set_xlabel(label)
    axes.set_title(title)
    axes.legend(fontsize=6)


def kib(row):
    return row["bytes_per_thread"] / 1024


def milliseconds(row):
    return row["seconds"] * 1e3


def both_patterns(axes, rows, ways, x, y, patterns=("random", "same-index")):
    for pattern in patterns:
        for way in ways:
            line(axes, pick(rows, pattern=pattern, way=way), x, y, f"{NAMES[way]}, {PATTERNS[pattern]}", way,
                 DASHES[pattern])


def draw_1(data, axes):
    rows = pick(data["walk"], pattern="graph-walk", way="linear", machine="titan_v")
    line(axes[0], rows, scale_of, milliseconds, "random walk with paging")
    line(axes[0], rows, scale_of, lambda row: baseline(row) * 1e3, "its accesses alone", "tiles")
    doublings(axes[0], "graph scale", "ms")


def draw_3(data, axes):
    rows = pick(data["walk"], pattern="graph-walk", way="linear", machine="titan_v")
    line(axes[0], rows, scale_of, lambda row: row["faults"], "faults")
    line(axes[0], rows, scale_of, lambda row: row["block_services"], "VA blocks serviced", "ordered")
    doublings(axes[0], "graph scale", "(a) faults")
    line(axes[1], rows, scale_of, lambda row: 100 * row["useful_page_share"], "4 KiB pages used", "tiles")
    doublings(axes[1], "graph scale", "(a) used of what came (%)", log=False)
    for key, label, way in (("faults", "faults", "linear"), ("bytes_in", "4 KiB pages moved", "tiles")):
        unit = PAGE if key == "bytes_in" else 1
        line(axes[2], data["sparsity"], lambda row: row["element"],
             lambda row, key=key, unit=unit: row[key] / unit / row["threads"], label, way)
    axes[2].axhline(50, color="0.6", linewidth=0.8, label="accesses")
    doublings(axes[2], "padding of a node (B)", "(b) a thread")


def boxes(axes, top, kinds, text, names=None):
    """A row of leaves at height `top`."""
    for leaf, kind in enumerate(kinds):
        axes.bar(leaf + 0.5, 0.8, 1, top, color=LEAF[kind], edgecolor="0.4", linewidth=0.6)
        axes.text(leaf + 0.5, top + 0.4, str(leaf) if names is None else names[leaf], ha="center", va="center",
                  fontsize=6)
    axes.text(-0.2, top + 0.4, text, ha="right", va="center", fontsize=7)


def bare(axes, title, kinds):
    for kind in kinds:
        axes.bar(0, 0, 0, 0, color=LEAF[kind], edgecolor="0.4", label=kind)
    axes.legend(fontsize=6, ncol=len(kinds), loc="upper center", bbox_to_anchor=(0.5, -0.02))
    axes.set_title(title)
    axes.axis("off")


def kinds_of(leaves, resident, fault, prefetched):
    return ["fault" if leaf == fault else "prefetched" if leaf in prefetched else
            "resident" if leaf in resident else "empty" for leaf in range(leaves)]


def draw_4(data, axes):
    steps = data["theorems"]["figure_4"]
    for number, step in enumerate(steps):
        boxes(axes[0], len(steps) - number, kinds_of(8, step["resident"], step["fault"], step["prefetched"]),
              f"fault on {step['fault']}")
    bare(axes[0], "leaves 0 to 7 of a VA block, a row a service", ("resident", "fault", "prefetched"))


def draw_7(data, axes):
    """A fault of warp 0 on leaf 2, where 0, 1 and two leaves of warp 1 are there: by the driver's rules."""
    from paper_theorems import indices_of, leaves_of, prefetched
    for text, top, other in (("side by side", 3, 4), ("padded", 1, 8)):
        resident = {0, 1, other, other + 1}
        came = set(indices_of(prefetched(leaves_of(*resident), leaves_of(2), 32)))
        kinds = kinds_of(16, resident, 2, came)
        owners = ["0" if leaf < 4 else "1" if other <= leaf < other + 4 else "" for leaf in range(16)]
        for leaf, owner in enumerate(owners):
            if leaf in came and owner != "0":
                kinds[leaf] = "another's"
            elif not owner and kinds[leaf] == "empty":
                kinds[leaf] = "padding"
        boxes(axes[0], top, kinds, text, owners)
    bare(axes[0], "a fault of warp 0; numbers: whose leaf it is", ("resident", "fault", "prefetched", "another's",
                                                                   "padding"))


def draw_12(data, axes):
    for panel, pattern in zip(axes, ("random", "same-index")):
        both_patterns(panel, data["range"], ("linear", "tiles", "small tiles"), kib, milliseconds, (pattern,))
        doublings(panel, "range of a thread (KiB)", f"ms, lanes {PATTERNS[pattern]}")


def draw_13(data, axes):
    plain = pick(data["large"], machine="titan_v")
    for way in ("linear", "tiles"):
        for key, label, dash in (("faults", "faults", "--"), ("block_services", "VA blocks serviced", "-")):
            line(axes[0], pick(plain, pattern="same-index", way=way), kib, lambda row, key=key: row[key],
                 f"{NAMES[way]}: {label}", way, dash)
    doublings(axes[0], "range of a thread (KiB)", "(a) lanes in step")
    for way in ("tiles", "ordered"):
        line(axes[1], pick(data["large"], machine="titan_v, utlb_faults=14", way=way), kib, lambda row: row["faults"],
             f"{NAMES[way]}", way)
    doublings(axes[1], "range of a thread (KiB)", "(a) faults, 14 a batch")
    both_patterns(axes[2], plain, ("linear", "tiles"), kib, lambda row: row["bytes_in"] / 1e6)
    doublings(axes[2], "range of a thread (KiB)", "(b) MB moved")
    both_patterns(axes[3], plain, ("linear", "tiles"), kib, lambda row: 100 * row["useful_big_page_share"])
    doublings(axes[3], "range of a thread (KiB)", "(b) 64 KiB pages used (%)", log=False)
    for way in ("unpadded", "tiles"):
        line(axes[4], pick(data["padding"], way=way), kib, lambda row: row["peak_active_blocks"], NAMES[way], way)
    doublings(axes[4], "bytes of a thread (KiB)", "(c) VA blocks on the GPU", log=False)


def draw_14(data, axes):
    for panel, key, unit, title in ((axes[0], "seconds", 1, "s"), (axes[1], "bytes_in", 1e9, "GB moved to the GPU"),
                                    (axes[2], "evictions", 1, "evictions")):
        both_patterns(panel, data["oversubscribed"], ("linear", "tiles", "small tiles"), lambda row: row["accesses"],
                      lambda row, key=key, unit=unit: row[key] / unit)
        panel.set_xlabel("accesses of a thread")
        panel.set_title(title)
    axes[0].legend(fontsize=6)


def draw_15(data, axes):
    for panel, (machine, name) in zip(axes, PLATFORMS.items()):
        both_patterns(panel, pick(data["walk"], machine=machine), ("linear", "tiles"), scale_of, milliseconds,
                      ("graph-walk", "same-index"))
        doublings(panel, "graph scale", f"ms, {name}")


def draw_16(data, axes):
    for panel, grid, title in ((axes[0], "applications", "applications"), (axes[1], "streams", "patterns")):
        names = names_of(data[grid])
        for i, capacity in enumerate(("unlimited", "75%", "37.5%")):
            ratios = []
            for name in names:
                here = pick(data[grid], pattern=name, capacity=capacity)
                ratios.append(one(here, way="linear")["seconds"] / one(here, way="tiles")["seconds"])
            panel.bar([n + (i - 1) * 0.27 for n in range(len(names))], [ratio - 1 for ratio in ratios], 0.25, 1,
                      label=capacity, color=list(COLOURS.values())[i])
        panel.axhline(1, color="0.4", linewidth=0.8)
        panel.set_yscale("log")
        panel.minorticks_off()
        panel.set_xticks(range(len(names)), names, rotation=30, ha="right")
        panel.set_title(f"gain of 64 KiB tiles, {title}")
        panel.legend(title="GPU memory", fontsize=6)


# {file: (function, panels, width and height of one)}
PICTURES = {"paper_fig01": (draw_1, 1, (3.6, 2.6)), "paper_fig03": (draw_3, 3, (3.0, 2.6)),
            "paper_fig04": (draw_4, 1, (4.2, 1.9)), "paper_fig07": (draw_7, 1, (6.2, 1.6)),
            "paper_fig12": (draw_12, 2, (3.6, 2.8)), "paper_fig13": (draw_13, 5, (2.9, 2.8)),
            "paper_fig14": (draw_14, 3, (3.2, 2.8)), "paper_fig15": (draw_15, 2, (3.6, 2.8)),
            "paper_fig16": (draw_16, 2, (4.2, 2.8))}


def draw_all(module, data, folder, names=tuple(PICTURES)):
    """Draws these pictures into `folder`; their paths, one after another."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        draw, panels, (width, height) = PICTURES[name]
        with module.rc_context(STYLE):
            figure, axes = module.subplots(1, panels, figsize=(width * panels, height), squeeze=False)
            draw(data, axes[0])
            path = folder / f"{name}.svg"
            figure.tight_layout()
            figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
            module.close(figure)
        yield path
