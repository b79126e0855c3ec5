# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""The shape of JSON that scripts read: the rows of a document; a field that is missing, or is of another type."""

import json
import sys
from pathlib import Path

# The exceptions that reading such a document raises.
ERRORS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, StopIteration)


class Unusable(Exception):
    """The rows are not those of the command that they should be of; the message says why."""


def rewrite(program, options, change):
    """Writes `change(rows)` to the file `options.output`, of the rows in the file `options.input`; "-" is standard output,
    and input. Returns the exit code: 0; 2 if the input cannot be used, with one line on standard error."""
    try:
        text = sys.stdin.read() if options.input == "-" else Path(options.input).read_text(encoding="utf-8")
        rows = change(rows_of(json.loads(text)))
    except (Unusable, OSError, json.JSONDecodeError, UnicodeDecodeError) as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2
    except ERRORS as error:
        print(f"{program}: {options.input}: {why(error)}", file=sys.stderr)
        return 2
    text = json.dumps(rows, indent=1) + "\n"
    if options.output == "-":
        sys.stdout.write(text)
    else:
        Path(options.output).write_text(text, encoding="utf-8")
    return 0


def rows_of(document):
    """The rows of what a command wrote with --json; of a list, which older versions wrote, the list itself."""
    return document["rows"] if isinstance(document, dict) and "rows" in document else document


def why(error):
    """One line that says what is wrong with the document."""
    return f"a field is missing or of another type than expected ({' '.join(repr(error).split())})"
