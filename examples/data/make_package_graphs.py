#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Makes two versions of Debian's package dependency graph from package indexes: of a release, and of the release with its
updates.

    lists=/var/lib/apt/lists/deb.debian.org_debian        # what `apt-get update` fetches on Debian 12
    examples/data/make_package_graphs.py ${lists}_dists_bookworm_main_binary-amd64_Packages.lz4 \\
        ${lists}_dists_bookworm-updates_main_binary-amd64_Packages.lz4 \\
        ${lists}-security_dists_bookworm-security_main_binary-amd64_Packages.lz4

    index of the release   ->  debian12-release.mtx.gz
    index, with updates    ->  debian12-updates.mtx.gz

Vertices of both are all packages that either has, in the C locale's order of their names. An edge i j says that package i
names package j in Pre-Depends, Depends, Recommends or Suggests; every alternative is counted once. Alternatives that are
no package of the version, such as virtual ones, make no edge.

Updates are applied as the archive does when it makes the next release of them: a source package of greater version
replaces the older ones as a whole. Packages that only an older version of their source has built are gone, with all edges
from and to them. That is where most deletions come from: the kernel's packages have its version in their names.

An index may be plain, or packed by xz, gzip, or lz4 (then /usr/lib/apt/apt-helper unpacks it, a part of apt).

Exit codes: 0 done; 2 it cannot be done: one line on standard error says why.
"""

import argparse
import functools
import gzip
import lzma
import re
import subprocess
import sys
from pathlib import Path

FIELDS = ("Pre-Depends", "Depends", "Recommends", "Suggests")
NEEDED = ("Package", "Version", "Source") + FIELDS
HELPER = "/usr/lib/apt/apt-helper"


def unpacked(path):
    """Returns the text of an index. Errors: OSError, ValueError."""
    if path.suffix == ".lz4":
        done = subprocess.run([HELPER, "cat-file", str(path)], capture_output=True, check=False)
        if done.returncode != 0:
            raise ValueError(f"{path}: {HELPER} cannot unpack it: {done.stderr.decode().strip()}")
        data = done.stdout
    else:
        with {".xz": lzma.open, ".gz": gzip.open}.get(path.suffix, open)(path, "rb") as file:
            data = file.read()
    return data.decode("utf-8")


def packages_of(text):
    """Returns the packages of an index, each as a dictionary of the fields that are needed."""
    found = []
    for paragraph in text.split("\n\n"):
        fields = {}
        for line in re.sub(r"\n[ \t]+", " ", paragraph).split("\n"):  # a field may go on in the next line
            name, colon, value = line.partition(":")
            if colon and name in NEEDED:
                fields[name] = value.strip()
        if "Package" in fields and "Version" in fields:
            found.append(fields)
    return found


def order_of(character):
    """Returns the rank of a character of a version: "~" before the end, letters before all others."""
    if character == "~":
        return -1
    return ord(character) if character.isalpha() else ord(character) + 256


def compare_parts(a, b):
    """Returns less than, equal to or greater than 0. Source: deb-version(7), the sorting algorithm."""
    while a or b:
        words = [re.match(r"[^0-9]*", part)[0] for part in (a, b)]
        longest = max(map(len, words))
        ranks = [[order_of(c) for c in word] + [0] * (longest - len(word)) for word in words]
        if ranks[0] != ranks[1]:
            return -1 if ranks[0] < ranks[1] else 1
        a, b = a[len(words[0]):], b[len(words[1]):]
        numbers = [re.match(r"[0-9]*", part)[0] for part in (a, b)]
        if int(numbers[0] or 0) != int(numbers[1] or 0):
            return int(numbers[0] or 0) - int(numbers[1] or 0)
        a, b = a[len(numbers[0]):], b[len(numbers[1]):]
    return 0


def compare_versions(a, b):
    """Returns less than, equal to or greater than 0 for two versions [epoch:]upstream[-revision]."""
    def parts(version):
        epoch, colon, rest = version.partition(":")
        epoch, rest = (epoch, rest) if colon else ("0", version)
        upstream, dash, revision = rest.rpartition("-")
        return (epoch, upstream, revision) if dash else (epoch, rest, "0")

    for x, y in zip(parts(a), parts(b)):
        if (order := compare_parts(x, y)) != 0:
            return order
    return 0


newest_first = functools.cmp_to_key(lambda a, b: compare_versions(b, a))


def source_of(package):
    """Returns name and version of the source that a package was built from."""
    match = re.fullmatch(r"(\S+)(?:\s+\((.*)\))?", package.get("Source", package["Package"]))
    return match[1], match[2] or package["Version"]


def by_name(packages):
    """Returns {name: package}, the newest of each name."""
    newest = {}
    for package in packages:
        other = newest.get(package["Package"])
        if other is None or compare_versions(other["Version"], package["Version"]) < 0:
            newest[package["Package"]] = package
    return newest


def with_updates(release, updates):
    """Returns {name: package} of a release with updates. Of sources that the updates have a newer version of, the packages
    of older versions are gone."""
    greatest = {}
    for package in updates:
        source, version = source_of(package)
        greatest[source] = min(greatest.get(source, version), version, key=newest_first)
    def is_gone(package):
        source, version = source_of(package)
        return source in greatest and compare_versions(version, greatest[source]) < 0
    return by_name(p for p in release + updates if not is_gone(p))


def edges_of(packages, number):
    """Returns the edges, as pairs of numbers."""
    edges = set()
    for name, package in packages.items():
        for field in FIELDS:
            for alternative in re.split("[,|]", package.get(field, "")):
                target = re.match(r"\s*([^\s(:\[]*)", alternative)[1]
                if target in packages:
                    edges.add((number[name], number[target]))
    return edges


def without_direction(edges):
    return {(min(e), max(e)) for e in edges if e[0] != e[1]}


def write(path, title, vertices, edges):
    """Writes a MatrixMarket file; the same edges give the same bytes."""
    lines = ["%%MatrixMarket matrix coordinate pattern general", f"% {title}: package dependency graph",
             "% an edge i j: package i names package j in Pre-Depends, Depends, Recommends or Suggests (every alternative)",
             "% vertices are the packages of both versions, in C-locale order of their names",
             f"{vertices} {vertices} {len(edges)}"]
    lines += [f"{i} {j}" for i, j in sorted(edges)]
    path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode("ascii"), 9, mtime=0))


def make(release, updates, folder, prefix="debian12"):
    """Writes both files. Returns the counts that examples/data/README.md has."""
    old = by_name(release)
    new = with_updates(release, updates)
    names = sorted(old.keys() | new.keys())  # Python orders strings by code points, as the C locale does
    number = {name: i + 1 for i, name in enumerate(names)}
    before, after = edges_of(old, number), edges_of(new, number)
    write(folder / f"{prefix}-release.mtx.gz", "Debian 12 (bookworm) amd64 main", len(names), before)
    write(folder / f"{prefix}-updates.mtx.gz", "Debian 12 (bookworm) amd64 main with its updates", len(names), after)
    pairs = [without_direction(edges) for edges in (before, after)]
    return {"vertices": len(names), "packages": (len(old), len(new)), "edges": (len(before), len(after)),
            "added": len(after - before), "removed": len(before - after),
            "pairs": tuple(map(len, pairs)), "pairs added": len(pairs[1] - pairs[0]),
            "pairs removed": len(pairs[0] - pairs[1])}


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Make two versions of Debian's package dependency graph.")
    parser.add_argument("release", type=Path, help="the package index of the release")
    parser.add_argument("updates", type=Path, nargs="+", help="package indexes of its updates")
    parser.add_argument("--output-dir", type=Path, default=Path(__file__).resolve().parent, metavar="FOLDER")
    options = parser.parse_args(arguments)
    try:
        release, *others = [packages_of(unpacked(path)) for path in (options.release, *options.updates)]
        for path, packages in zip((options.release, *options.updates), (release, *others)):
            if not packages:
                raise ValueError(f"{path}: no package in it; give a file named Packages of a Debian archive")
        counts = make(release, [p for packages in others for p in packages], options.output_dir)
    except (OSError, ValueError, lzma.LZMAError) as error:
        print(f"make_package_graphs.py: {error}", file=sys.stderr)
        return 2
    for name, value in counts.items():
        print(f"{name:14} {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
