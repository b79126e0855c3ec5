# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""The shape of JSON that scripts read: the rows of a document; a field that is missing, or is of another type."""

# The exceptions that reading such a document raises.
ERRORS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, StopIteration)


def rows_of(document):
    """The rows of what a command wrote with --json; of a list, which older versions wrote, the list itself."""
    return document["rows"] if isinstance(document, dict) and "rows" in document else document


def why(error):
    """One line that says what is wrong with the document."""
    return f"a field is missing or of another type than expected ({' '.join(repr(error).split())})"
