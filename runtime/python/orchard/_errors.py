# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""The errors that the library's functions raise, with the library's text."""


class Error(RuntimeError):
    """Any error of Orchard. `code` is the number of orchard_status in orchard/orchard.h, 0 where the error is this
    package's own."""

    def __init__(self, text, code=0):
        super().__init__(text)
        self.code = code


class ArgumentError(Error, ValueError):
    """A value that is not allowed: an unknown option, one outside its range, an address outside the heap."""


class DeadlineError(Error, TimeoutError):
    """A kernel or the system did not answer in time."""


class OutOfMemoryError(Error, MemoryError):
    """Memory is short: the capacity is spent, or the system has no more."""


class PreconditionError(Error):
    """No usable GPU, or a call at the wrong time: of a closed heap, or options for a default heap that exists."""


class DataLossError(Error):
    """The program wrote where it may not, for example beyond the end of a block of a hardened heap."""


_CLASSES = {
    3: ArgumentError,
    4: DeadlineError,
    5: ArgumentError,
    8: OutOfMemoryError,
    9: PreconditionError,
    11: ArgumentError,
    15: DataLossError,
}


def error_of(code, text):
    """Returns the exception for a status of the library, not raised yet. Cost: none."""
    return _CLASSES.get(code, Error)(text, code)
