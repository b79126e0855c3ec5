#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Draws a run of `orchard particles`: the heap's memory on the device and on the host after each kernel, what the tracks
need of it, and where a fixed pool of the device's budget ends.

    orchard particles --json run.json
    profiling/report/plot_particles.py run.json docs/pictures/particles.svg

Needs matplotlib (package python3-matplotlib); the same version of it writes the same bytes.

Exit codes: 0 done; 2 it cannot be done: one line on standard error says why.
"""

import argparse
import json
import sys
from pathlib import Path

MIB = 1 << 20


def curves(document):
    """{"device", "host", "tracks": MiB after each kernel of the heap's run; "ends": the kernel in which the pool ended,
    None if it did not}. Raises ValueError for a document of another command."""
    try:
        passes = document["heap"]["passes"]
        size = document["track_bytes"]
        return {"device": [p["device_bytes"] / MIB for p in passes],
                "host": [p["host_bytes"] / MIB for p in passes],
                "tracks": [p["alive"] * size / MIB for p in passes],
                "ends": None if document["pool"]["complete"] else len(document["pool"]["passes"]),
                "budget": document["device_budget_bytes"] / MIB}
    except (KeyError, TypeError) as error:
        raise ValueError(f"no document of `orchard particles`: {error} is missing") from error


def draw(document, output):
    found = curves(document)
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "orchard", "svg.fonttype": "none"})
    from matplotlib import pyplot

    kernels = range(1, len(found["device"]) + 1)
    figure, axes = pyplot.subplots(figsize=(8, 3.2))
    axes.stackplot(kernels, found["device"], found["host"], labels=("heap, on the device", "heap, on the host"),
                   colors=("#4c9f70", "#e0a458"), alpha=0.8, step="mid")
    axes.plot(kernels, found["tracks"], color="0.15", linewidth=1.4, label="tracks in use")
    axes.axhline(found["budget"], color="#5b8db8", linewidth=1, linestyle="--", label="the device's budget")
    if found["ends"] is not None:
        axes.axvline(found["ends"], color="#b5656b", linewidth=1.4, label="the fixed pool ends here")
    axes.set_xlabel("kernel")
    axes.set_ylabel("MiB")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8, loc="upper right")
    axes.set_title(f"{document['primaries']} primaries of {document['energy_mev']} MeV, {document['device']['kind']}",
                   fontsize=9)
    figure.tight_layout()
    figure.savefig(output, metadata={"Date": None})


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Draw a run of `orchard particles`.")
    parser.add_argument("run", type=Path, help="the document that --json has written")
    parser.add_argument("output", type=Path, help="the picture: an .svg file")
    options = parser.parse_args(arguments)
    try:
        if options.output.suffix != ".svg":
            raise ValueError(f"{options.output}: give a name that ends in .svg")
        draw(json.loads(options.run.read_text(encoding="utf-8")), options.output)
    except ImportError:
        print("plot_particles.py: matplotlib is not installed; on Debian: apt-get install python3-matplotlib "
              "(cmake/packages.txt, group plots)", file=sys.stderr)
        return 2
    except (ValueError, OSError) as error:
        print(f"plot_particles.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
