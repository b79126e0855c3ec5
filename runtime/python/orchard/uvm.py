# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""The model of the UVM driver's demand paging, over NumPy arrays: what moves, when and why, computed without a GPU.

    import numpy
    from orchard import uvm
    model = uvm.Model("64MiB", capacity="16MiB")       # managed memory, and the GPU's memory
    model.populate()                                   # the CPU has written all of it
    run = model.run(numpy.arange(0, 64 << 20, 4096))   # one kernel: addresses, one after another
    print(run.counts["raw_faults"], run.seconds, run.migrations["pages"].sum())

docs/uvm_model.md says what the model covers, and how far it agrees with an H200. Everything here is deterministic. A
model may be used by one thread at a time; `run` lets other threads of Python go on, and can be interrupted."""

import enum
import importlib.machinery
import importlib.util
import operator
import os
import sys
from pathlib import Path
from typing import NamedTuple

from ._errors import ArgumentError, OutOfMemoryError

try:
    import numpy
except ImportError as error:
    raise ImportError(f"orchard.uvm needs NumPy ({error}); install it: pip install numpy") from error


def _load_module():
    """Returns the extension module: that beside ORCHARD_LIBRARY, if the variable is set and there is one, or that in this
    package. Raises ImportError if there is none."""
    chosen = os.environ.get("ORCHARD_LIBRARY")
    folders = [str(Path(chosen).parent)] if chosen else []
    folders.append(str(Path(__file__).resolve().parent))
    name = f"{__package__}._uvm"
    spec = importlib.machinery.PathFinder.find_spec(name, folders)
    if spec is None:
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        raise ImportError(
            f"orchard.uvm: there is no module _uvm for Python {version} in {' or '.join(folders)}; install the package with "
            "the pip of this Python, or build the target orchard_uvm_python with it (docs/python.md)")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[name] = module
    return module


try:
    _uvm = _load_module()
except ImportError as error:
    if "absl" in str(error):
        raise ImportError(f"{error}; install Abseil (on Debian the package libabsl20220623)") from error
    raise

__all__ = [
    "BLOCK", "CPU", "DISCARDED", "GPU", "PAGE", "READABLE", "WRITABLE", "Accesses", "Kind", "Migration", "Model", "Range",
    "Run", "access_dtype", "accesses", "batch_dtype", "eviction_dtype", "fault_dtype", "migration_dtype", "pattern",
    "trace",
]

PAGE = 4096
"""Bytes of a page, the unit of all page numbers."""
BLOCK = 2 << 20
"""Bytes of a VA block, and of a chunk of GPU memory, which is evicted as one."""

# Bits of `Model.page_states`.
GPU, CPU, DISCARDED, READABLE, WRITABLE = 1, 2, 4, 8, 16


class Kind(enum.IntEnum):
    """The kind of an access. To the driver, an atomic is a write."""

    READ = 0
    WRITE = 1
    ATOMIC = 2


class Migration(enum.IntEnum):
    """What became of pages: the field "kind" of `Run.migrations`."""

    DEMAND = 0
    """moved to the GPU because they faulted"""
    PREFETCHED = 1
    """moved to the GPU by the driver's prefetcher"""
    REQUESTED = 2
    """moved to the GPU by `Model.prefetch`"""
    POPULATED = 3
    """placed on the GPU; no data moved"""
    WRITTEN_BACK = 4
    """moved to the CPU, by an eviction or by `Model.prefetch`"""
    COPIED_OUT = 5
    """copied to the CPU; the pages stay on the GPU, too"""
    DROPPED = 6
    """left the GPU; no data moved: discarded, or the CPU has a copy"""


# How many pages more the GPU has for each page of a migration, by kind.
_GAIN = numpy.array([1, 1, 1, 1, -1, 0, -1], numpy.int64)


def _dtype(*fields):
    """Returns a type with these fields, laid out as C does."""
    return numpy.dtype(list(fields), align=True)


fault_dtype = _dtype(("time_ns", "i8"), ("page", "u8"), ("batch", "u4"), ("write", "?"))
"""A raw fault: when it reached the fault buffer; the batch that it was fetched in, an index of `Run.batches`."""
batch_dtype = _dtype(("begin_ns", "i8"), ("end_ns", "i8"), ("faults", "u4"), ("duplicates", "u4"), ("blocks", "u4"),
                     ("flushed", "u4"))
"""A batch of faults, from the driver's fetch to its replay: raw faults, those of them for a page that another one names,
VA blocks serviced, faults that the flush dropped (they come again)."""
migration_dtype = _dtype(("time_ns", "i8"), ("page", "u8"), ("pages", "u4"), ("kind", "u1"))
"""Consecutive pages from `page` on, in one VA block, that came to the GPU or left it: see `Migration`. The time is the end
of the service of the block, or that of the call."""
eviction_dtype = _dtype(("time_ns", "i8"), ("page", "u8"), ("chunk", "u4"), ("pages", "u4"))
"""A chunk of GPU memory that was evicted: the first page of the VA block that it held, and how many pages left."""
access_dtype = _dtype(("address", "u8"), ("step", "u8"), ("warp", "u4"), ("lane", "u1"), ("kind", "u1"))
"""An access: the bytes from the beginning of the space, and which lane makes it in which step of its warp."""


def _number(value, name, least=0, most=2**63 - 1):
    """Returns `value` as an int. Raises ArgumentError if it is no whole number, or not from `least` to `most`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ArgumentError(f"{name}: {value!r} is no whole number; give one from {least} to {most}") from None
    if not least <= number <= most:
        raise ArgumentError(f"{name}: {number} is not from {least} to {most}")
    return number


def _bytes(value, name):
    """Returns a number of bytes: of a number, or of a text such as "64MiB". Raises ArgumentError."""
    if not isinstance(value, str):
        return _number(value, name)
    try:
        return _uvm.parse_bytes(value)
    except ArgumentError as error:
        raise ArgumentError(f"{name}: {error}", error.code) from None


def _choice(value, name, allowed):
    if value not in allowed:
        raise ArgumentError(f"{name}: {value!r}; give one of {', '.join(map(repr, allowed))}")
    return value


class Range(NamedTuple):
    """A range of a model's managed memory, in bytes from its beginning."""

    offset: int
    bytes: int


class Accesses:
    """The accesses of one kernel, which models can run any number of times: `accesses`, `trace` and `pattern` make them.

    A kernel has warps. A warp makes steps, one after another, and in a step each of its 32 lanes makes at most one
    access."""

    def __init__(self, native):
        self._native = native

    def __repr__(self):
        return f"<orchard.uvm.Accesses of {self.warps} warps to {self.bytes} bytes>"

    @property
    def bytes(self):
        """The bytes of managed memory that a model of these accesses needs."""
        return self._native.bytes

    @property
    def warps(self):
        """The number of warps."""
        return self._native.warps

    def table(self):
        """Returns all accesses, an array of `access_dtype` of shape (accesses,): warp after warp, steps and lanes
        ascending. Cost: 24 bytes and some 10 ns for each access."""
        return self._native.table().view(access_dtype)

    def save(self, path):
        """Writes a trace file for `trace` and for `orchard uvm --trace` (docs/uvm_traces.md). Its space has whole VA
        blocks. Raises OSError; ArgumentError for accesses without a warp. Cost: some 10 ns for each access."""
        contents = self._native.encoded()
        with open(path, "wb") as file:
            file.write(contents)


def accesses(values, kinds="read", *, unit=1, base=0):
    """Returns the accesses that arrays state.

    values: whole numbers, of shape (steps,): one lane of one warp; (steps, lanes): one warp; or (warps, steps, lanes), with
        at most 32 lanes. -1 stands for a lane that makes no access in a step; steps without any access are left out.
        The array is not copied if its type is int64 or uint64 and it is contiguous in the order of C, and may not be
        changed then; otherwise it is copied once.
    kinds: "read", "write" or "atomic" for all; or an array of the shape of `values`: of bool, True for a write, or of
        `Kind` as whole numbers.
    unit: bytes from value to value: 1 for addresses, PAGE for pages, or the bytes of an element of an array.
    base: the address of value 0, or the Range that the values count from.

    Raises ArgumentError for another shape or type, and for a value that lies beyond 32 TiB or is no kind. Cost: about 1 ns
    for each value."""
    values = numpy.asarray(values)
    if values.size == 0 and values.dtype.kind == "f":
        values = values.astype(numpy.int64)  # of an empty list
    if values.dtype.kind not in "iu":
        raise ArgumentError(f"accesses: an array of {values.dtype}; give whole numbers, such as int64")
    if not 1 <= values.ndim <= 3:
        raise ArgumentError(f"accesses: the shape {values.shape}; give (steps,), (steps, lanes) or (warps, steps, lanes)")
    if values.ndim > 1 and values.shape[-1] > 32:
        raise ArgumentError(f"accesses: the shape {values.shape} has {values.shape[-1]} lanes, and a warp has 32; give "
                            "(warps, steps, lanes)")
    if values.ndim == 3 and values.shape[0] >= 2**32:
        raise ArgumentError(f"accesses: the shape {values.shape} has {values.shape[0]} warps; give fewer than 2**32")
    shape = {1: (1, values.size, 1), 2: (1, *values.shape), 3: values.shape}[values.ndim]
    same = values.view(numpy.int64) if values.dtype == numpy.uint64 and values.flags.c_contiguous else values
    cube = numpy.ascontiguousarray(same, numpy.int64).reshape(shape)
    kind, kind_cube = _kinds_of(kinds, values.shape, cube.shape)
    start = base.offset if isinstance(base, Range) else base
    return Accesses(_uvm.of_arrays(_read_only(cube), kind_cube, kind, _number(unit, "unit", 1, 2**40),
                                   _number(start, "base", 0, 2**45 - 1)))


def _read_only(array):
    """Returns a view that cannot be written: the model writes nothing, and takes such arrays, too."""
    view = array.view()
    view.flags.writeable = False
    return view


def _kinds_of(kinds, shape, cube_shape):
    """Returns the kind of all accesses and None, or 0 and an array of kinds."""
    names = {"read": Kind.READ, "write": Kind.WRITE, "atomic": Kind.ATOMIC}
    if isinstance(kinds, str):
        return int(names[_choice(kinds, "kinds", tuple(names))]), None
    kinds = numpy.asarray(kinds)
    if kinds.shape != shape:
        raise ArgumentError(f"kinds: the shape {kinds.shape}, and the accesses have {shape}; give the same shape, or one of "
                            "'read', 'write' and 'atomic' for all")
    if kinds.dtype.kind not in "biu":
        raise ArgumentError(f"kinds: an array of {kinds.dtype}; give bool (True for a write), or Kind as whole numbers")
    if kinds.dtype.itemsize > 1 and kinds.size and not 0 <= kinds.min() <= kinds.max() <= 2:
        raise ArgumentError(f"kinds: values from {kinds.min()} to {kinds.max()}; give 0 for a read, 1 for a write, 2 for an "
                            "atomic")
    same = kinds.view(numpy.uint8) if kinds.dtype.itemsize == 1 and kinds.flags.c_contiguous else kinds
    return 0, _read_only(numpy.ascontiguousarray(same, numpy.uint8).reshape(cube_shape))


def trace(path):
    """Returns the accesses in a trace file (docs/uvm_traces.md), all of which have been checked. Raises ArgumentError if
    there is no such file, DataLossError for a file that is no whole trace, Error for another version. Cost: 5 to 20 ns for
    each access; the file's bytes stay in memory."""
    return Accesses(_uvm.of_trace(os.fspath(path)))


def pattern(name, *, threads=1024, bytes_per_thread="256KiB", accesses=100, element=4, stride="64KiB", seed=1,
            layout="linear", placement="packed"):
    """Returns the accesses of a pattern, with the names and defaults of `orchard uvm` (docs/uvm_traces.md): "random",
    "same-index", "sequential", "strided", "graph-walk" or "growth".

    threads: 32 of them are a warp. bytes_per_thread, element, stride: bytes, or texts such as "4MiB".
    accesses: of each thread. layout: "linear", or "interleaved:TILE" or "interleaved:TILE:ORDER", with a tile such as
    "4KiB" and the order "ascending" or "prefetch_first"; or "sync_malloc", each thread's memory in pages of its own
    (docs/uvm_model.md). placement: "packed" or "padded"; no matter for "sync_malloc".

    Raises ArgumentError for a value that is not allowed. Cost: none, since a run computes the accesses; for "graph-walk"
    0.1 us for each edge of its graph."""
    what, _, rest = layout.partition(":")
    tile, _, order = rest.partition(":")
    if not (layout in ("linear", "sync_malloc") or what == "interleaved" and tile):
        raise ArgumentError(f"layout: {layout!r}; give 'linear', 'interleaved:TILE' with a tile such as 4KiB, or 'sync_malloc'")
    return Accesses(_uvm.of_pattern(
        name, _number(threads, "threads"), _bytes(bytes_per_thread, "bytes_per_thread"), _bytes(element, "element"),
        _bytes(tile, "layout") if tile else 0,
        _choice(order or "ascending", "layout", ("ascending", "prefetch_first")) == "prefetch_first",
        _choice(placement, "placement", ("packed", "padded")) == "padded", layout == "sync_malloc",
        _number(accesses, "accesses"), _number(seed, "seed", 0, 2**64 - 1), _bytes(stride, "stride")))


class Run:
    """What one run did, the calls since the run before included. The arrays are empty if `record` was False.

    counts: dict of all counts, with the names of uvm/model/result.hpp: int, but for the shares and "seconds".
    seconds: the modelled time, that of the calls since the run before included.
    start_ns: the model's clock when the kernel began. It begins at 0 with the model, and calls do not move it.
    faults: array of `fault_dtype`, batch after batch, in each by page; shape (counts["raw_faults"],).
    batches: array of `batch_dtype`; shape (counts["batches"],).
    migrations: array of `migration_dtype`, in the order of time.
    evictions: array of `eviction_dtype`; shape (counts["evictions"],).
    page_states: the states after the run, as `Model.page_states` gives them; None if `record` was False.

    Times are nanoseconds of the model's clock, pages are numbers of 4 KiB. The arrays of events are the model's memory
    itself, not copies: 24 or 32 bytes for each event."""

    def __init__(self, text, start_ns, faults, batches, migrations, evictions, page_states):
        self.counts = _numbers_of(text)
        self.seconds = self.counts["seconds"]
        self.start_ns = start_ns
        self.faults = faults.view(fault_dtype)
        self.batches = batches.view(batch_dtype)
        self.migrations = migrations.view(migration_dtype)
        self.evictions = evictions.view(eviction_dtype)
        self.page_states = page_states

    def __repr__(self):
        return (f"<orchard.uvm.Run of {self.counts['accesses']} accesses: {self.counts['raw_faults']} faults, "
                f"{self.counts['evictions']} evictions, {self.seconds:.6f} s>")

    def _recorded(self):
        if self.page_states is None:
            raise ArgumentError("the run was not recorded; call Model.run with record=True")
        return self.migrations

    def resident_pages(self):
        """Returns (times, pages): two int64 arrays of shape (n,), the times in ns at which the number of pages on the GPU
        changed, and the numbers from then on. The first row is the state before the calls and the run. Raises
        ArgumentError if the run was not recorded. Cost: some 60 ns for each migration."""
        moved = self._recorded()
        change = _GAIN[moved["kind"]] * moved["pages"]
        end = int(numpy.count_nonzero(self.page_states & GPU))
        pages = end - change.sum() + numpy.cumsum(change)
        last = numpy.append(moved["time_ns"][1:] != moved["time_ns"][:-1], True)[:len(moved)]
        first = moved["time_ns"][0] if len(moved) else self.start_ns
        return (numpy.concatenate([[min(first, self.start_ns)], moved["time_ns"][last]]).astype(numpy.int64),
                numpy.concatenate([[end - change.sum()], pages[last]]).astype(numpy.int64))

    def residency(self, times_ns):
        """Returns which pages were on the GPU: bool of shape (len(times_ns), pages), with the migrations until each time
        done. times_ns: whole numbers, ascending, of the model's clock. Raises ArgumentError for other times, and if the run
        was not recorded. Cost: a byte and some ns for each element, some 40 ns for each migration."""
        moved = self._recorded()
        times = numpy.atleast_1d(numpy.asarray(times_ns))
        if times.ndim != 1 or times.dtype.kind not in "iu" or (times[1:] < times[:-1]).any():
            raise ArgumentError(f"times_ns: {times_ns!r}; give whole numbers of nanoseconds, ascending")
        pages = len(self.page_states)
        out = numpy.empty((len(times), pages), bool)
        # From the end back: what came after a time is undone.
        now = (self.page_states & GPU).astype(numpy.int8)
        end = len(moved)
        for row in range(len(times) - 1, -1, -1):
            begin = int(numpy.searchsorted(moved["time_ns"], times[row], side="right"))
            later = moved[begin:end]
            change = numpy.zeros(pages + 1, numpy.int64)
            gain = _GAIN[later["kind"]]
            numpy.add.at(change, later["page"].astype(numpy.int64), gain)
            numpy.add.at(change, (later["page"] + later["pages"]).astype(numpy.int64), -gain)
            now = (now - numpy.cumsum(change[:-1])).astype(numpy.int8)
            out[row] = now
            end = begin
        return out


def _numbers_of(text):
    """Returns the numbers of lines name=value, as float where one has a point."""
    lines = (line.split("=") for line in text.splitlines())
    return {name: int(value) if value.isdigit() else float(value) for name, value in lines}


class Model:
    """Managed memory, one GPU, and the UVM driver between them. Pages keep their places from run to run.

    Functions with `where` take a Range, a pair (offset, bytes), or None for all of the memory; both numbers are whole
    pages, and a border that is no multiple of 2 MiB truncates a VA block where advice differs, as it does in the driver."""

    def __init__(self, bytes, *, capacity=None, machine="h200", policy="driver", **constants):
        """Makes a model. At first no page is anywhere.

        bytes: of managed memory, a number or a text such as "1GiB": whole pages, at most 32 TiB.
        capacity: of the GPU's memory, likewise: whole chunks of 2 MiB. None: unlimited.
        machine: "h200" or "titan_v". policy: "driver", or a stand-in for a published policy as we read it:
        "throttling_fetch", "early_adaptor" or "dynamic_act" (docs/uvm_model.md).
        constants: constants to change, such as batch_ns=20000 (docs/uvm_model.md).

        Raises ArgumentError for a number that is not allowed, an unknown machine, policy or constant. Cost: 1.2 bytes for each page
        of 4 KiB."""
        self.bytes = _bytes(bytes, "bytes")
        self.capacity = None if capacity is None else _bytes(capacity, "capacity")
        words = [str(machine), *(f"{name}={value}" for name, value in constants.items())]
        self._native = _uvm.Model(self.bytes, self.capacity, ", ".join(words), str(policy))
        self._allocated = 0

    def __repr__(self):
        capacity = "unlimited" if self.capacity is None else self.capacity
        return f"<orchard.uvm.Model of {self.bytes} bytes, capacity {capacity}>"

    @property
    def constants(self):
        """A dict of the model's constants: docs/uvm_model.md has their meanings and units."""
        return _numbers_of(self._native.machine())

    def allocate(self, bytes):
        """Returns the next Range of the memory, in whole pages; it begins at a multiple of 2 MiB, so that it shares no VA
        block with another one. bytes: a number, or a text such as "8MiB". Nothing becomes resident, and ranges are not
        freed. Raises ArgumentError for 0 bytes, OutOfMemoryError if the rest of the memory is too small."""
        wanted = -(-max(1, _bytes(bytes, "bytes")) // PAGE) * PAGE
        if wanted > self.bytes - self._allocated:
            raise OutOfMemoryError(
                f"{wanted} bytes, and {max(0, self.bytes - self._allocated)} of the model's {self.bytes} are left; make a "
                "larger one")
        found = Range(self._allocated, wanted)
        self._allocated += -(-wanted // BLOCK) * BLOCK
        return found

    def _where(self, where):
        if where is None:
            return 0, self.bytes
        try:
            offset, size = where
        except (TypeError, ValueError):
            raise ArgumentError(f"where: {where!r}; give a Range, a pair (offset, bytes), or None") from None
        return _number(offset, "offset"), _number(size, "bytes")

    def advise(self, what, where=None):
        """As cudaMemAdvise. what: "prefer_gpu", "prefer_cpu" or "prefer_none"; "accessed_by" (this GPU) or
        "no_accessed_by"; "read_mostly" or "no_read_mostly". Takes no modelled time. Raises ArgumentError for other advice,
        and for a range that is not of whole pages of the memory."""
        self._native.advise(*self._where(where), str(what))

    def prefetch(self, where=None, to="gpu"):
        """As cudaMemPrefetchAsync: brings the range to "gpu" or "cpu". Its time and counts are those of the next run.
        Raises ArgumentError as `advise`. Cost: about 10 ns for each page."""
        self._native.prefetch(*self._where(where), str(to))

    def populate(self, where=None, at="cpu"):
        """As writes by "cpu" or "gpu": places those pages of the range there that are nowhere yet. Raises ArgumentError as
        `advise`. Cost: some ns for each page."""
        self._native.populate(*self._where(where), str(at))

    def discard(self, where=None):
        """As cudaMemDiscardBatchAsync: gives up the contents of the range. Takes no modelled time. Raises ArgumentError as
        `advise`."""
        self._native.discard(*self._where(where))

    def run(self, what, kinds="read", *, unit=1, base=0, record=True):
        """Runs one kernel to its end and returns its Run.

        what: Accesses, or an array, which goes with kinds, unit and base to `accesses`.
        record: False leaves out the events, for long runs of which the counts are enough.

        Raises ArgumentError if an access lies outside the memory, and the errors of `accesses`; Error if a step needs more
        memory than the GPU has; PreconditionError if another thread uses the model. After an error or an interruption the
        model can be used, and pages are where the driver had brought them.
        Cost: 15 us; 5 to 30 ns for each access; for a batch of faults 2 to 10 us for each VA block. With `record`, 24 or 32 bytes
        for each event, and a byte for each page."""
        if not isinstance(what, Accesses):
            what = accesses(what, kinds, unit=unit, base=base)
        elif not (isinstance(kinds, str) and kinds == "read" and unit == 1 and base == 0):
            raise ArgumentError("kinds, unit and base belong to an array; give them to the function that made the Accesses")
        done = self._native.run(what._native, bool(record))
        return Run(*done, self.page_states() if record else None)

    def page_states(self):
        """Returns the state of each page, uint8 of shape (pages,): the sum of GPU and CPU (where its contents are; both for
        a copy, neither if it was never touched), DISCARDED, and READABLE and WRITABLE (whether the GPU's access would
        succeed without a fault). `states & uvm.GPU != 0` is the residency. Cost: some ns for each page."""
        return self._native.page_states()

    def validate(self):
        """Checks the model's own structures against each other. Raises Error with the first fault. Cost: some ns for each
        page."""
        self._native.validate()
