# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""JSON of another shape than a script expects: a field is missing, or is of another type."""

# The exceptions that reading such a document raises.
ERRORS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, StopIteration)


def why(error):
    """One line that says what is wrong with the document."""
    return f"a field is missing or of another type than expected ({' '.join(repr(error).split())})"
