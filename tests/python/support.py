# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""What the tests of the Python package share: which package is tested, and whether there is a GPU.

If ORCHARD_LIBRARY, the path of a liborchard.so, is set, the package of this checkout is tested with it; otherwise the
installed package, if there is one."""

import ctypes
import importlib.util
import os
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "runtime/python"
SKIPPED = 77

if os.environ.get("ORCHARD_LIBRARY"):
    sys.path.insert(0, str(PACKAGE))


def skip_without_library():
    """Ends the program as skipped if there is no package to test."""
    if importlib.util.find_spec("orchard") is None:
        print("skipped: ORCHARD_LIBRARY, the path of the liborchard.so to test, is not set, and no package is installed")
        sys.exit(SKIPPED)


def environment(**changes):
    """Returns the variables for a program that imports the tested package: those of this process, and `changes`."""
    variables = {**os.environ, **changes}
    if os.environ.get("ORCHARD_LIBRARY"):
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, [str(PACKAGE), os.environ.get("PYTHONPATH")]))
    return variables


def why_no_gpu():
    """Returns why kernels cannot run here, or None if they can."""
    import orchard
    try:
        orchard.device_code_path("fatbin")
    except orchard.PreconditionError as error:
        return str(error)
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "there is no NVIDIA driver here"
    count = ctypes.c_int()
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return "there is no NVIDIA GPU here"
    return None


class _Result(unittest.TextTestResult):
    """Counts the tests that ran to their end, which `testsRun` alone does not tell in all versions of Python."""

    succeeded = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.succeeded += 1


class _Runner(unittest.TextTestRunner):
    resultclass = _Result


def main():
    """Runs the tests of the calling file. Exits with SKIPPED if all of them skipped themselves."""
    result = unittest.main(exit=False, testRunner=_Runner).result
    if result.wasSuccessful() and result.succeeded == 0 and result.skipped:
        print("skipped: " + "; ".join(sorted({reason for _, reason in result.skipped})))
        sys.exit(SKIPPED)
    sys.exit(not result.wasSuccessful())
