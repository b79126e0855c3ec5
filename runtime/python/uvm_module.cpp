// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The extension module orchard._uvm: the model of the UVM driver for runtime/python/orchard/uvm.py, which documents it
/// and checks types and shapes.
///
///     accesses    arrays of the caller (not copied), a trace, or a pattern; a model opens them anew for each run
///     model       paging_model with its event_log; the lists of events become NumPy arrays without a copy
///
/// An absl::Status becomes the exception of orchard._errors.

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/options/byte_size.hpp"
#include "uvm/model/paging_model.hpp"
#include "uvm/model/patterns.hpp"
#include "uvm/model/trace_file.hpp"

namespace nb = nanobind;

namespace orchard::uvm_model {
namespace {

/// Throws the Python exception of an error.
[[noreturn]] void raise(const absl::Status& s) {
    const nb::object error =
        nb::module_::import_("orchard._errors").attr("error_of")(static_cast<int>(s.code()), std::string(s.message()));
    PyErr_SetObject(error.type().ptr(), error.ptr());
    throw nb::python_error();
}
void check(const absl::Status& s) {
    if (!s.ok()) {
        raise(s);
    }
}
template <class T>
T value_of(absl::StatusOr<T> result) {
    check(result.status());
    return *std::move(result);
}

/// An array that Python owns. Its consumer gives it a type with fields.
using byte_array = nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>;

/// Returns the memory of a vector as an array of bytes, which is not copied.
template <class T>
byte_array array_of(std::vector<T>&& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    auto kept = std::make_unique<std::vector<T>>(std::move(values));
    std::vector<T>* const data = kept.get();
    nb::capsule owner(data, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    kept.release();  // NOLINT(bugprone-unused-return-value): the capsule deletes it
    return {data->data(), {data->size() * sizeof(T)}, std::move(owner)};
}

// uvm.py describes these with align=True, which is the layout of C.
static_assert(sizeof(fault_event) == 24 && sizeof(batch_event) == 32);
static_assert(sizeof(move_event) == 24 && sizeof(eviction_event) == 24);

/// A whole array of addresses, or of kinds of accesses: warps, steps, lanes.
template <class T>
using cube = nb::ndarray<const T, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

/// The value in an array of addresses that stands for no access.
constexpr std::int64_t no_access = -1;
/// The largest managed space that a model can have: 32 TiB.
constexpr std::uint64_t most_bytes = std::uint64_t{max_segments} * segment_bytes;

/// How to read an array of addresses.
struct array_view {
    const std::int64_t* values;
    const std::uint8_t* kinds;  ///< null: all are `kind`
    access_kind kind;
    std::uint64_t warps, steps, lanes;
    std::uint64_t unit;  ///< bytes from value to value
    std::uint64_t base;  ///< address of value 0
};

/// The accesses in an array. Steps without an access are left out.
class array_source final : public access_source {
public:
    array_source(const array_view& view, std::uint64_t bytes)
        : view_{view}, bytes_{bytes}, at_(static_cast<std::size_t>(view.warps)) {}

    [[nodiscard]] std::uint64_t bytes() const override { return bytes_; }
    [[nodiscard]] std::uint32_t warps() const override { return static_cast<std::uint32_t>(view_.warps); }
    std::size_t step(std::uint32_t warp, std::uint64_t index, step_buffer out) override {
        position& at = at_[warp];
        if (index == 0) {
            at = {};
        } else if (index != at.index) {
            at = {index, at.row + 1};
        }
        for (; at.row < view_.steps; ++at.row) {
            if (const std::size_t lanes = read(warp, at.row, out); lanes != 0) {
                return lanes;
            }
        }
        return 0;
    }

private:
    /// The step of a warp that was requested last, and its place in the array.
    struct position {
        std::uint64_t index = 0;
        std::uint64_t row = 0;
    };

    [[nodiscard]] std::size_t read(std::uint32_t warp, std::uint64_t row, step_buffer out) const {
        const std::uint64_t first = (warp * view_.steps + row) * view_.lanes;
        std::size_t n = 0;
        for (std::uint64_t lane = 0; lane < view_.lanes; ++lane) {
            if (const std::int64_t value = view_.values[first + lane]; value != no_access) {
                const access_kind kind =
                    view_.kinds != nullptr ? static_cast<access_kind>(view_.kinds[first + lane]) : view_.kind;
                out[n++] = {view_.base + static_cast<std::uint64_t>(value) * view_.unit,
                            static_cast<std::uint8_t>(lane), kind};
            }
        }
        return n;
    }

    array_view view_;
    std::uint64_t bytes_;
    std::vector<position> at_;  ///< indexed by warp
};

/// Checks an array and returns the bytes of the space that it needs: whole pages. Cost: about 1 ns for each value.
absl::StatusOr<std::uint64_t> bytes_needed(const array_view& view) {
    const std::uint64_t most = view.base < most_bytes ? (most_bytes - 1 - view.base) / view.unit : 0;
    std::uint64_t greatest = 0;
    bool any = false;
    for (std::uint64_t i = 0; i < view.warps * view.steps * view.lanes; ++i) {
        const std::int64_t value = view.values[i];
        if (value == no_access) {
            continue;
        }
        const bool known = view.kinds == nullptr || view.kinds[i] <= static_cast<std::uint8_t>(access_kind::atomic);
        if (value < 0 || static_cast<std::uint64_t>(value) > most || !known) {
            const std::string where = absl::StrFormat("warp %u, step %u, lane %u: ", i / view.lanes / view.steps,
                                                      i / view.lanes % view.steps, i % view.lanes);
            return absl::InvalidArgumentError(
                known ? absl::StrCat(where, value, " times ", view.unit, " bytes from ", view.base, " on",
                                     " is not within the 32 TiB of a managed space; give -1 where a lane accesses "
                                     "nothing")
                      : absl::StrCat(where, "the kind ", static_cast<int>(view.kinds[i]),
                                     "; give 0 for a read, 1 for a write, 2 for an atomic"));
        }
        any = true;
        greatest = std::max(greatest, static_cast<std::uint64_t>(value));
    }
    const std::uint64_t end = any ? view.base + greatest * view.unit + 1 : 1;
    return (end + os_page_bytes - 1) / os_page_bytes * os_page_bytes;
}

/// Accesses that can be run any number of times.
struct accesses {
    std::function<absl::StatusOr<std::unique_ptr<access_source>>()> open;  ///< returns them from the first step on
    std::uint64_t bytes = 0;
    std::uint32_t warps = 0;
};

/// Returns the accesses that `open` returns.
accesses accesses_from(std::function<absl::StatusOr<std::unique_ptr<access_source>>()> open) {
    const std::unique_ptr<access_source> first = value_of(open());
    const std::uint64_t bytes = first->bytes();
    const std::uint32_t warps = first->warps();
    return {std::move(open), bytes, warps};
}

accesses accesses_of_arrays(const cube<std::int64_t>& values, const std::optional<cube<std::uint8_t>>& kinds, int kind,
                            std::uint64_t unit, std::uint64_t base) {
    const array_view view{values.data(),
                          kinds ? kinds->data() : nullptr,
                          static_cast<access_kind>(kind),
                          values.shape(0),
                          values.shape(1),
                          values.shape(2),
                          unit,
                          base};
    const std::uint64_t bytes = value_of(bytes_needed(view));
    // The arrays live as long as the function does.
    return accesses_from([values, kinds, view, bytes]() -> absl::StatusOr<std::unique_ptr<access_source>> {
        return std::make_unique<array_source>(view, bytes);
    });
}

accesses accesses_of_trace(const std::string& path) {
    const trace loaded = [&] {
        absl::StatusOr<trace> result = absl::UnknownError("");
        {
            const nb::gil_scoped_release others;
            result = trace::load(path);
        }
        return value_of(std::move(result));
    }();
    return accesses_from([loaded]() -> absl::StatusOr<std::unique_ptr<access_source>> { return loaded.source(); });
}

accesses accesses_of_pattern(const std::string& name, const thread_memory& memory, std::uint64_t count,
                             std::uint64_t seed, std::uint64_t stride) {
    const pattern which = value_of(pattern_named(name));
    pattern_parameters p;
    p.memory = memory;
    p.accesses_per_thread = count;
    p.seed = seed;
    p.stride = stride;
    if (which == pattern::graph_walk) {
        p.graph = value_of(graph_for(p));
    }
    return accesses_from([which, p] { return make_pattern(which, p); });
}

/// Returns the memory of a pattern's threads. @param tile_bytes  0: linear
thread_memory memory_of(std::uint64_t threads, std::uint64_t bytes_per_thread, std::uint64_t element_bytes,
                        std::uint64_t tile_bytes, bool prefetch_first, bool padded, bool sync_malloc) {
    if (tile_bytes != 0 && !is_tile(tile_bytes)) {
        raise(absl::InvalidArgumentError(
            absl::StrFormat("layout: a tile of %u bytes; give a power of two from 4 bytes to 64 KiB", tile_bytes)));
    }
    return {threads,
            bytes_per_thread,
            element_bytes,
            tile_bytes == 0 ? layout::linear() : layout::interleaved(tile_of(tile_bytes)),
            prefetch_first ? lane_order::prefetch_first : lane_order::ascending,
            padded ? portion_policy::padded : portion_policy::packed,
            sync_malloc ? placed_by::sync_malloc : placed_by::service};
}

/// Accesses that end when the user interrupts the program; in a space of `bytes`.
class interruptible_source final : public access_source {
public:
    interruptible_source(access_source& of, std::uint64_t bytes) : of_{of}, bytes_{bytes} {}

    [[nodiscard]] std::uint64_t bytes() const override { return bytes_; }
    [[nodiscard]] std::uint32_t warps() const override { return of_.warps(); }
    std::size_t step(std::uint32_t warp, std::uint64_t index, step_buffer out) override {
        if (++steps_ % steps_between == 0 && !interrupted_) {
            const nb::gil_scoped_acquire python;
            interrupted_ = PyErr_CheckSignals() != 0;
        }
        return interrupted_ ? 0 : of_.step(warp, index, out);
    }
    /// Throws the exception of the interruption, if there was one.
    void check() const {
        if (interrupted_) {
            throw nb::python_error();
        }
    }

private:
    static constexpr std::uint64_t steps_between = 1 << 17;  ///< some 10 ms

    access_source& of_;
    std::uint64_t bytes_;
    std::uint64_t steps_ = 0;
    bool interrupted_ = false;
};

/// Returns the contents of a trace file. A trace has whole VA blocks: a truncated one would be treated otherwise.
nb::bytes encoded(const accesses& what) {
    const std::unique_ptr<access_source> source = value_of(what.open());
    interruptible_source whole(*source, segments_for(what.bytes) * segment_bytes);
    absl::StatusOr<trace> made = absl::UnknownError("");
    {
        const nb::gil_scoped_release others;
        made = trace::from(whole);
    }
    whole.check();
    const trace done = value_of(std::move(made));
    return nb::bytes(done.encoded().data(), done.encoded().size());
}

/// One access, for Python.
struct access_row {
    std::uint64_t address;
    std::uint64_t step;
    std::uint32_t warp;
    std::uint8_t lane;
    access_kind kind;
};
static_assert(sizeof(access_row) == 24);

/// Returns all accesses, warp after warp, as an array of `access_row`.
byte_array table(const accesses& what) {
    const std::unique_ptr<access_source> source = value_of(what.open());
    interruptible_source all(*source, what.bytes);
    std::vector<access_row> rows;
    {
        const nb::gil_scoped_release others;
        std::array<access, max_lanes> lanes{};
        for (std::uint32_t warp = 0; warp < what.warps; ++warp) {
            for (std::uint64_t step = 0;; ++step) {
                const std::size_t n = all.step(warp, step, lanes);
                for (std::size_t i = 0; i < n; ++i) {
                    rows.push_back({lanes[i].address, step, warp, lanes[i].lane, lanes[i].kind});
                }
                if (n == 0) {
                    break;
                }
            }
        }
    }
    all.check();
    return array_of(std::move(rows));
}

/// Returns the value that `names` has at the place of `name`. @param what  for the error
template <class T>
T choice(const std::string& name, std::initializer_list<std::pair<std::string_view, T>> values, const char* what) {
    std::string known;
    for (const auto& [text, value] : values) {
        if (text == name) {
            return value;
        }
        absl::StrAppend(&known, known.empty() ? "" : ", ", std::string(text));
    }
    raise(absl::InvalidArgumentError(absl::StrCat("\"", name, "\" is no ", what, "; give one of: ", known)));
}

/// A paging model with the events of its next run.
class model {
public:
    model(std::uint64_t bytes, std::optional<std::uint64_t> capacity, const std::string& machine,
          const std::string& policy)
        : model_{value_of(paging_model::create(
              {bytes, capacity, value_of(parse_calibration(machine)), value_of(paging_policy_named(policy))}))} {
        model_.record(&log_);
    }

    void advise(std::uint64_t offset, std::uint64_t bytes, const std::string& what) {
        const auto held = hold();
        check(model_.advise({offset, bytes}, choice<advice>(what,
                                                            {{"prefer_gpu", advice::prefer_gpu},
                                                             {"prefer_cpu", advice::prefer_cpu},
                                                             {"prefer_none", advice::prefer_none},
                                                             {"accessed_by", advice::accessed_by},
                                                             {"no_accessed_by", advice::no_accessed_by},
                                                             {"read_mostly", advice::read_mostly},
                                                             {"no_read_mostly", advice::no_read_mostly}},
                                                            "advice")));
    }
    void prefetch(std::uint64_t offset, std::uint64_t bytes, const std::string& to) {
        const auto held = hold();
        check(model_.prefetch({offset, bytes}, processor_named(to)));
    }
    void populate(std::uint64_t offset, std::uint64_t bytes, const std::string& at) {
        const auto held = hold();
        check(model_.populate({offset, bytes}, processor_named(at)));
    }
    void discard(std::uint64_t offset, std::uint64_t bytes) {
        const auto held = hold();
        check(model_.discard({offset, bytes}));
    }

    /// Returns (counts as text, start in ns, faults, batches, moves, evictions). Without `record` the lists are empty.
    nb::tuple run(const accesses& what, bool record) {
        const auto held = hold();
        const std::unique_ptr<access_source> opened = value_of(what.open());
        interruptible_source source(*opened, what.bytes);
        const nanoseconds start = model_.now();
        model_.record(record ? &log_ : nullptr);
        absl::StatusOr<result> done = absl::UnknownError("");
        {
            const nb::gil_scoped_release others;
            done = model_.run(source);
        }
        event_log events = std::exchange(log_, {});
        model_.record(&log_);
        source.check();
        if (!record) {
            events = {};
        }
        return nb::make_tuple(to_text(value_of(std::move(done))), start, array_of(std::move(events.faults)),
                              array_of(std::move(events.batches)), array_of(std::move(events.moves)),
                              array_of(std::move(events.evictions)));
    }

    /// Returns a byte for each page: 1 on the GPU, 2 on the CPU, 4 discarded, 8 readable, 16 writable by the GPU.
    byte_array page_states() {
        const auto held = hold();
        std::vector<std::uint8_t> states(model_.space().bytes() / os_page_bytes);
        for (std::size_t page = 0; page < states.size(); ++page) {
            const uvm_model::page_states& s = model_.space().states(page / 64);
            const auto bit = [&](std::uint64_t word, int shift) {
                return static_cast<std::uint8_t>((word >> page % 64 & 1) << shift);
            };
            states[page] = static_cast<std::uint8_t>(bit(s.gpu, 0) | bit(s.cpu, 1) | bit(s.discarded, 2) |
                                                     bit(s.readable, 3) | bit(s.writable, 4));
        }
        return array_of(std::move(states));
    }
    void validate() {
        const auto held = hold();
        check(model_.validate());
    }
    /// Returns the constants as lines name=value.
    [[nodiscard]] std::string machine() const { return to_text(model_.machine()); }

private:
    static processor processor_named(const std::string& name) {
        return choice<processor>(name, {{"gpu", processor::gpu}, {"cpu", processor::cpu}}, "processor");
    }
    /// Returns a lock of the model. `run` lets other threads go on, and they may not use the same model meanwhile.
    std::unique_lock<std::mutex> hold() {
        std::unique_lock<std::mutex> held(busy_, std::try_to_lock);
        if (!held) {
            raise(absl::FailedPreconditionError(
                "the model is in use by another thread; wait for it, or give each thread a model of its own"));
        }
        return held;
    }

    std::mutex busy_;
    event_log log_;
    paging_model model_;
};

}  // namespace
}  // namespace orchard::uvm_model

NB_MODULE(_uvm, m) {
    using namespace orchard::uvm_model;  // NOLINT(google-build-using-namespace): the names of one file

    nb::class_<accesses>(m, "Accesses")
        .def_ro("bytes", &accesses::bytes)
        .def_ro("warps", &accesses::warps)
        .def("encoded", &encoded)
        .def("table", &table);
    m.def("of_arrays", &accesses_of_arrays, nb::arg("values").noconvert(), nb::arg("kinds").noconvert().none(),
          nb::arg("kind"), nb::arg("unit"), nb::arg("base"));
    m.def("of_trace", &accesses_of_trace);
    m.def("of_pattern", [](const std::string& name, std::uint64_t threads, std::uint64_t bytes_per_thread,
                           std::uint64_t element, std::uint64_t tile, bool prefetch_first, bool padded,
                           bool sync_malloc, std::uint64_t count, std::uint64_t seed, std::uint64_t stride) {
        return accesses_of_pattern(
            name, memory_of(threads, bytes_per_thread, element, tile, prefetch_first, padded, sync_malloc), count, seed,
            stride);
    });
    m.def("parse_bytes", [](const std::string& text) { return value_of(orchard::parse_bytes(text)); });

    nb::class_<model>(m, "Model")
        .def(nb::init<std::uint64_t, std::optional<std::uint64_t>, const std::string&, const std::string&>())
        .def("advise", &model::advise)
        .def("prefetch", &model::prefetch)
        .def("populate", &model::populate)
        .def("discard", &model::discard)
        .def("run", &model::run)
        .def("page_states", &model::page_states)
        .def("validate", &model::validate)
        .def("machine", &model::machine);
}
