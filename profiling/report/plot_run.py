# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""What the pictures of single runs have in common: plot_graph.py, plot_join.py, plot_tree.py. Each draws the document that
a subcommand of `orchard` has written by --json.

The same version of matplotlib writes the same bytes for the same document.
"""

import argparse
import json
import sys
from pathlib import Path

COLOURS = ("#5b8db8", "#e0a458", "#4c9f70", "#b5656b", "#7d6b9e", "0.35")
MIB = 1 << 20


def panels(count, height=3.0):
    """Returns a figure and its axes, side by side. Raises ImportError without matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "orchard", "svg.fonttype": "none", "font.size": 8})
    from matplotlib import pyplot

    return pyplot.subplots(1, count, figsize=(9, height))


def save(figure, title, output):
    figure.suptitle(title, fontsize=9)
    figure.tight_layout()
    figure.savefig(output, metadata={"Date": None})


def main(command, draw, arguments=None):
    """Returns the exit code of a script: 0 done; 2 it cannot be done, and one line on standard error says why.

    @param command  the subcommand whose documents are drawn
    @param draw     draw(document, output); KeyError, TypeError or IndexError: it is a document of another command
    """
    script = f"plot_{command}.py"
    parser = argparse.ArgumentParser(description=f"Draw a run of `orchard {command}`.")
    parser.add_argument("run", type=Path, help="the document that --json has written")
    parser.add_argument("output", type=Path, help="the picture: an .svg file")
    options = parser.parse_args(arguments)
    try:
        if options.output.suffix != ".svg":
            raise ValueError(f"{options.output}: give a name that ends in .svg")
        document = json.loads(options.run.read_text(encoding="utf-8"))
        try:
            draw(document, options.output)
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError(f"{options.run}: no document of `orchard {command}`: {error}") from error
    except ImportError:
        print(f"{script}: matplotlib is not installed; on Debian: apt-get install python3-matplotlib "
              "(cmake/packages.txt, group plots)", file=sys.stderr)
        return 2
    except (ValueError, OSError) as error:
        print(f"{script}: {error}", file=sys.stderr)
        return 2
    return 0
