// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard bench access`: the cost of accesses through the lane views, compared with index arithmetic written by hand
/// and with plain pointers, on the same memory. Each thread has an array of 4 KB from a heap and accesses it in several
/// orders. Then a single thread and a single warp follow chains, in which every read depends on the one before.
///
/// Fewer threads with longer arrays show tiles of 64 KiB beside linear arrays: of 128 KiB each, and of unequal lanes,
/// each with a random length of 128 to 256 KiB. The rows of unequal lanes have all lanes that are still that long, and
/// an element behind those that all lanes fill is found by a table (docs/layouts.md).
///
///     pattern           sequential read, sequential write, strided read, random read, dependent reads; the first four
///                       also of unequal lanes
///     layout            of the arrays: linear, or interleaved with tiles of 4 B to 64 KiB; a heap for each
///     array_bytes       of each thread's array; the least of unequal ones
///     by                the way of access (access_ways.cuh)
///     us                median time of the kernel
///     gb_per_s          bytes that the program asked for, by that time; not the traffic of the memory
///     share_of_hand     time of the reference by time of this way: 1 is as fast. The reference is the arithmetic by
///                       hand, or the plain pointer for linear arrays; no unequal lanes have it
///     share_of_linear   longer arrays: the same, with the plain pointer on linear arrays of these lengths as reference
///     ns_per_100        dependent reads: time of 100 reads of one thread
///     over_raw_ns       the same less that of plain pointers
///     wrong             failed checks; 0 unless something is broken
///
/// Accesses of all threads are bound by memory, so that they show whether index arithmetic is hidden behind it.
/// Dependent reads hit the cache and nothing hides their arithmetic. One launch of each kernel does not count. Times
/// are those of kernels, by CUDA events; allocation and checks are not timed.

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "profiling/bench/access_kernels.cuh"
#include "profiling/bench/bench.hpp"
#include "profiling/bench/repetitions.hpp"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/heap.hpp"

namespace orchard::bench {
namespace access {
namespace {

using nlohmann::ordered_json;

/// The arrays of a heap: their bytes, or the least of them where lengths differ, and the number of threads. All arrays
/// together are many times what a cache holds.
struct array_set {
    std::uint32_t bytes;
    std::uint32_t threads;        ///< on a GPU
    std::uint32_t small_threads;  ///< on the emulated device, and with --quick
};
constexpr array_set short_arrays{4096, 270'336, 512};  ///< 1.1 GB
constexpr array_set long_arrays{128 << 10, 16'896,
                                32};  ///< 2.2 GB, or 3.3; two tiles of 64 KiB, so that lanes alternate

/// Microseconds of the plain pointer on linear arrays, by pattern.
using linear_times = std::map<std::string, double>;

/// The requested layout of the arrays of one heap, checked against the actual one: `Width` lanes in each sub-array. The
/// kernels written by hand have tile and width compiled in, so that a heap with another layout would be measured
/// wrongly.
struct wanted_layout {
    std::string name;  ///< as shown in rows
    layout how;        ///< what `allocate_array` is asked for
    lane_map map;      ///< what each array must then have
};

/// Returns the layout of arrays that each lane has for itself.
wanted_layout linear_layout() { return {"linear", layout::linear(), lane_map::linear()}; }

/// Returns the layout of arrays that lanes share in tiles; its name is the size of a tile.
template <tile Tile, std::uint32_t Width>
wanted_layout interleaved_layout() {
    const std::uint64_t bytes = bytes_of(Tile);
    return {bytes < 1024 ? absl::StrCat(bytes, " B tile") : absl::StrCat(bytes / 1024, " KiB tile"),
            layout::interleaved(Tile), lane_map::rows(Tile, Width)};
}

/// One heap, the arrays of its threads, and the rows that are measured on them.
template <class T, lengths Lengths = lengths::equal>
class arrays_run {
public:
    /// A kernel that is timed, as a function.
    struct timed_kernel {
        const char* by;
        std::function<simt::launch_result(const simt::executor&, const job<T, Lengths>&)> launch;
    };

    /// Prepares nothing yet: `prepare` makes the heap. `s` and `linear` outlive the object.
    /// @param linear  null, or the times of linear arrays, which linear arrays write and others are compared with
    arrays_run(const settings& s, wanted_layout wanted, array_set arrays, linear_times* linear)
        : settings_{s}, wanted_{std::move(wanted)}, set_{arrays}, linear_{linear} {}

    /// Makes the heap, allocates the arrays and writes their first contents. Errors: those of the heap and of
    /// `device_array`; Internal if an array has not the expected layout.
    absl::Status prepare() {
        const bool cuda = settings_.device == simt::device_kind::cuda;
        all_.threads = cuda && !settings_.quick ? set_.threads : set_.small_threads;
        all_.count = set_.bytes / sizeof(T);
        constexpr std::uint32_t longest = Lengths == lengths::equal ? 1 : 2;  // in relation to `set_.bytes`
        options values = settings_.heap;
        values.device = cuda ? device_option::cuda : device_option::emulated;
        // A chunk may exceed the arrays in it by a quarter (`heap_ref::allocate_array`).
        const auto needed = [&](std::uint64_t threads) {
            return threads * set_.bytes * longest * 5 / 4 + (std::uint64_t{256} << 20);
        };
        all_.threads = static_cast<std::uint32_t>(threads_within_limit(values, all_.threads, needed));
        values.capacity = std::max<std::uint64_t>(values.capacity, needed(all_.threads));
        auto made = heap::create(values);
        if (!made.ok()) {
            return made.status();
        }
        heap_.emplace(*std::move(made));
        on_ = heap_->executor();
        on_.timed = true;
        auto arrays = device_array<lane_array<T>>::create(on_, all_.threads);
        auto results = device_array<std::uint32_t>::create(on_, all_.threads);
        auto wrong = device_array<word64>::create(on_, 1);
        absl::Status status = arrays.status();
        status.Update(results.status());
        status.Update(wrong.status());
        if (!status.ok()) {
            return status;
        }
        arrays_ = *std::move(arrays);
        results_ = *std::move(results);
        wrong_ = *std::move(wrong);
        all_.arrays = arrays_.data();
        all_.results = results_.data();
        all_.wrong = wrong_.data();
        // One launch of all threads: the arrays of a warp are then in one chunk, as the layout requires.
        launch(allocate_kernel<T, Lengths>{heap_->ref(), wanted_.how, all_});
        check_maps();
        if (status_.ok()) {
            launch(write_kernel<T, by_array, Lengths>{all_});
        }
        return status_;
    }

    /// Measures sequential, strided and random accesses of all threads. The other ways are compared with `Reference`.
    template <class Reference>
    void walk() {
        check_addresses<Reference>();
        time_reads<sequential, by_array, by_pointer, by_tile, Reference>("sequential read");
        time_writes<by_array, by_pointer, by_tile, Reference>("sequential write");
        time_reads<strided, by_array, by_pointer, Reference>("strided read");
        time_reads<random, by_array, by_pointer, Reference>("random read");
    }

    /// The same of arrays whose lengths differ. `Raw`: the plain pointer, for linear arrays; nothing for others.
    template <class... Raw>
    void walk_unequal() {
        check_pieces();
        time_reads<sequential, by_array, by_tile, Raw...>("sequential read, unequal lanes");
        time_writes<by_array, by_tile, Raw...>("sequential write, unequal lanes");
        time_reads<strided_in_any, by_array, Raw...>("strided read, unequal lanes");
        time_reads<random_in_any, by_array, Raw...>("random read, unequal lanes");
    }

    /// Measures dependent reads of the first thread, and of the first warp. `Hand`: further ways, in addition to those
    /// for all layouts.
    template <class... Hand>
    void chase() {
        launch(make_chain_kernel<T>{lanes(simt::warp_size)});
        for (const std::uint32_t threads : {1u, static_cast<std::uint32_t>(simt::warp_size)}) {
            time_chase<by_array, by_pointer, Hand..., by_raw_pointer>(threads);
        }
    }

    /// Frees everything, trims and validates the heap, and appends the rows; or returns the first error.
    absl::Status finish(ordered_json& rows) {
        launch(free_kernel<T, Lengths>{heap_->ref(), all_});
        status_.Update(heap_->trim());
        status_.Update(heap_->validate());
        rows.insert(rows.end(), rows_.begin(), rows_.end());
        return status_;
    }

private:
    /// Runs a kernel that is not timed, with a thread for each array.
    template <class Kernel>
    void launch(const Kernel& kernel) {
        note(simt::launch(on_, simt::grid_for(kernel.of.threads), kernel));
    }
    /// Returns the microseconds of a launch, and keeps its error.
    double note(const simt::launch_result& result) {
        if (!result.ok) {
            status_.Update(to_status(result));
        }
        return result.microseconds;
    }
    /// Returns the number of wrong values that checks have counted since the last call.
    std::uint64_t counted_wrong() {
        std::uint64_t wrong = 0;
        status_.Update(copy_to_host(on_, &wrong, wrong_.data(), sizeof(wrong)));
        status_.Update(wrong_.zero());
        return wrong;
    }
    /// Returns the same job for the first `threads` threads only.
    job<T, Lengths> lanes(std::uint32_t threads) const {
        job<T, Lengths> some = all_;
        some.threads = threads;
        return some;
    }

    /// Checks that each thread has an array, with the map for which the kernels written by hand are compiled.
    void check_maps() {
        std::vector<lane_array<T>> host(all_.threads);
        status_.Update(arrays_.download(host));
        for (std::size_t i = 0; i < host.size() && status_.ok(); ++i) {
            const std::uint32_t count = all_.count_of(static_cast<std::uint32_t>(i));
            if (host[i].size() != count || !is_wanted(host[i].map())) {
                status_.Update(absl::InternalError(absl::StrFormat(
                    "%s: thread %d has %d elements of %d, in rows of %d lanes with tiles of %d B", wanted_.name, i,
                    host[i].size(), count, int{host[i].map().width}, bytes_of(host[i].map().row_tile))));
            }
        }
    }
    /// Returns whether an array has the layout that is measured. Of unequal lanes the number of common rows may be any.
    [[nodiscard]] bool is_wanted(const lane_map& found) const {
        if (Lengths == lengths::equal || wanted_.map == lane_map::linear()) {
            return found == wanted_.map;
        }
        return found.ragged != 0 && found.width == wanted_.map.width && found.row_tile == wanted_.map.row_tile;
    }
    /// Checks that pieces have the addresses of single elements.
    void check_pieces() {
        launch(check_pieces_kernel<T, Lengths>{all_});
        if (const std::uint64_t wrong = counted_wrong(); wrong != 0) {
            status_.Update(absl::InternalError(absl::StrFormat(
                "%s: %d elements of unequal lanes have another address in their piece", wanted_.name, wrong)));
        }
    }
    /// Checks that every way computes the same addresses as `Reference`. Without this check, a way could be fast
    /// because it reads other bytes.
    template <class Reference>
    void check_addresses() {
        launch(check_addresses_kernel<T, Reference>{all_});
        if (const std::uint64_t wrong = counted_wrong(); wrong != 0) {
            status_.Update(absl::InternalError(absl::StrFormat(
                "%s: %d elements have another address by one way than by others", wanted_.name, wrong)));
        }
    }

    /// Returns a kernel as a function, so that the kernels of one pattern can be run in turn.
    template <class Kernel>
    static timed_kernel make_timed(const char* by) {
        return {by, [](const simt::executor& on, const job<T, Lengths>& of) {
                    return simt::launch(on, simt::grid_for(of.threads), Kernel{of});
                }};
    }
    /// Measure one pattern in all `Ways`; the last one is the reference.
    template <class Order, class... Ways>
    void time_reads(const char* pattern) {
        time_all(pattern, {make_timed<read_kernel<T, Ways, Order, Lengths>>(Ways::name)...}, false,
                 [&] { launch(check_sums_kernel<T, Order, Lengths>{all_}); });
    }
    template <class... Ways>
    void time_writes(const char* pattern) {
        time_all(pattern, {make_timed<write_kernel<T, Ways, Lengths>>(Ways::name)...}, true,
                 [&] { launch(check_contents_kernel<T, Lengths>{all_}); });
    }

    /// Adds one row for each kernel. The kernels run in turn, so that a change of the machine's state affects all of
    /// them. Each launch is checked. The last kernel is the reference of the others.
    void time_all(const char* pattern, const std::vector<timed_kernel>& kernels, bool writes,
                  const std::function<void()>& check) {
        std::vector<std::vector<double>> us(kernels.size());
        std::vector<std::uint64_t> wrong(kernels.size());
        for (int round = -1; round < settings_.repeats && status_.ok(); ++round) {
            for (std::size_t k = 0; k < kernels.size(); ++k) {
                // Each write has other contents; otherwise a write that did nothing would pass the check.
                all_.salt += writes ? 1 : 0;
                us[k].push_back(note(kernels[k].launch(on_, all_)));
                check();
                wrong[k] += counted_wrong();
            }
        }
        if (!status_.ok()) {
            return;
        }
        // The first launch (round -1) loads code and fills caches; it does not count.
        const double reference = median_after(1, us.back());
        if (linear_ != nullptr && wanted_.map == lane_map::linear()) {
            (*linear_)[pattern] = reference;
        }
        const double bytes = static_cast<double>(bytes_of_arrays());
        for (std::size_t k = 0; k < kernels.size(); ++k) {
            const double time = median_after(1, us[k]);
            ordered_json row = begin_row(pattern, kernels[k].by, all_.threads);
            row["us"] = time;
            row["gb_per_s"] = bytes / time * 1e-3;
            if (Lengths == lengths::equal) {
                row["share_of_hand"] = reference / time;
            }
            if (linear_ != nullptr) {
                row["share_of_linear"] = linear_->at(pattern) / time;
            }
            row["wrong"] = wrong[k];
            add_repetitions(row, "", us[k]);
            rows_.push_back(std::move(row));
        }
    }

    /// Adds one row for each way. For each, a short and a long chase are launched. The difference of their times
    /// contains neither the launch nor the first round through the arrays, which loads them into the cache.
    template <class... Ways>
    void time_chase(std::uint32_t threads) {
        constexpr std::size_t ways = sizeof...(Ways);
        const bool small = settings_.quick || settings_.device == simt::device_kind::emulated;
        // Two rounds through the array: the first one brings it into the cache, the second one reads from there.
        const std::uint32_t shorter = 2 * all_.count;
        const std::uint32_t longer = shorter + (small ? 10'000 : 50'000);
        const std::array<std::function<double(std::uint32_t)>, ways> once{
            [&](std::uint32_t steps) { return chase_once<Ways>(threads, steps); }...};
        std::array<std::vector<double>, ways> us_shorter;
        std::array<std::vector<double>, ways> us_longer;
        std::array<std::uint64_t, ways> wrong{};
        for (int round = -1; round < settings_.repeats && status_.ok(); ++round) {
            for (std::size_t k = 0; k < ways; ++k) {
                us_shorter[k].push_back(once[k](shorter));
                us_longer[k].push_back(once[k](longer));
                // Only the long chase is checked; the short one is a part of it.
                launch(check_chase_kernel<T>{lanes(threads), longer});
                wrong[k] += counted_wrong();
            }
        }
        if (!status_.ok()) {
            return;
        }
        const double ns_per_100_of_us = 1e5 / (longer - shorter);
        const auto ns_per_100 = [&](std::size_t k) {
            return (median_after(1, us_longer[k]) - median_after(1, us_shorter[k])) * ns_per_100_of_us;
        };
        constexpr std::array<const char*, ways> names{Ways::name...};
        for (std::size_t k = 0; k < ways; ++k) {
            ordered_json row = begin_row("dependent reads", names[k], threads);
            row["ns_per_100"] = ns_per_100(k);
            row["over_raw_ns"] = ns_per_100(k) - ns_per_100(ways - 1);
            row["wrong"] = wrong[k];
            // The same difference of each repetition, for the columns of single repetitions.
            std::vector<double> each(us_longer[k].size());
            std::transform(us_longer[k].begin(), us_longer[k].end(), us_shorter[k].begin(), each.begin(),
                           [&](double with, double without) { return (with - without) * ns_per_100_of_us; });
            add_repetitions(row, "per_100", each, "ns");
            rows_.push_back(std::move(row));
        }
    }
    /// Returns the microseconds of one chase by one warp, of which the first `threads` threads take part.
    template <class Way>
    double chase_once(std::uint32_t threads, std::uint32_t steps) {
        return note(simt::launch(on_, {1, simt::warp_size}, chase_kernel<T, Way>{lanes(threads), steps}));
    }

    /// Returns the bytes of all arrays.
    [[nodiscard]] std::uint64_t bytes_of_arrays() const {
        std::uint64_t elements = 0;
        for (std::uint32_t i = 0; i < all_.threads; ++i) {
            elements += all_.count_of(i);
        }
        return elements * sizeof(T);
    }

    /// Returns the axes of a row.
    ordered_json begin_row(const char* pattern, const char* by, std::uint32_t threads) const {
        return {
            {"pattern", pattern}, {"layout", wanted_.name}, {"array_bytes", set_.bytes}, {"element_bytes", sizeof(T)},
            {"by", by},           {"threads", threads}};
    }

    const settings& settings_;
    wanted_layout wanted_;
    array_set set_;
    linear_times* linear_;
    std::optional<heap> heap_;
    simt::executor on_;                    ///< times its launches
    device_array<lane_array<T>> arrays_;   ///< [thread], in device memory
    device_array<std::uint32_t> results_;  ///< [thread]: sums, or the ends of chains
    device_array<word64> wrong_;
    job<T, Lengths> all_{};  ///< the parameters of kernels for all threads
    absl::Status status_;    ///< the first error
    ordered_json rows_ = ordered_json::array();
};

/// Selects whether chains are also followed.
enum class chains { no, yes };

/// Measures linear arrays of `T`; the reference is the plain pointer.
template <class T, chains Also>
absl::Status measure_linear(const settings& s, array_set arrays, linear_times* linear, ordered_json& rows) {
    arrays_run<T> run(s, linear_layout(), arrays, linear);
    if (absl::Status status = run.prepare(); !status.ok()) {
        return status;
    }
    run.template walk<by_raw_pointer>();
    if constexpr (Also == chains::yes) {
        run.template chase<>();
    }
    return run.finish(rows);
}

/// Measures interleaved arrays of `T`; the reference is the arithmetic by hand. `Width`: the lanes that share a
/// sub-array if 32 lanes allocate together (docs/layouts.md, "Arrays from a heap").
template <class T, chains Also, tile Tile, std::uint32_t Width = simt::warp_size>
absl::Status measure_tile(const settings& s, array_set arrays, linear_times* linear, ordered_json& rows) {
    arrays_run<T> run(s, interleaved_layout<Tile, Width>(), arrays, linear);
    if (absl::Status status = run.prepare(); !status.ok()) {
        return status;
    }
    run.template walk<by_hand<Tile, Width>>();
    if constexpr (Also == chains::yes) {
        run.template chase<by_hand<Tile, Width>>();
    }
    return run.finish(rows);
}

/// Measures arrays of `T` of unequal lanes, in one layout. `Raw`: as for `arrays_run::walk_unequal`.
template <class T, class... Raw>
absl::Status measure_unequal(const settings& s, wanted_layout wanted, linear_times& linear, ordered_json& rows) {
    arrays_run<T, lengths::unequal> run(s, std::move(wanted), long_arrays, &linear);
    if (absl::Status status = run.prepare(); !status.ok()) {
        return status;
    }
    run.template walk_unequal<Raw...>();
    return run.finish(rows);
}

/// Adds the rows of long arrays: linear first, which the tiles of 64 KiB are compared with.
absl::Status measure_long(const settings& s, ordered_json& rows) {
    using word = std::uint32_t;
    linear_times equal;
    linear_times unequal;
    absl::Status status = measure_linear<word, chains::no>(s, long_arrays, &equal, rows);
    if (status.ok()) {
        status.Update(measure_tile<word, chains::no, tile::k64>(s, long_arrays, &equal, rows));
    }
    if (status.ok()) {
        status.Update(measure_unequal<word, by_raw_pointer>(s, linear_layout(), unequal, rows));
    }
    if (status.ok()) {
        status.Update(measure_unequal<word>(s, interleaved_layout<tile::k64, simt::warp_size>(), unequal, rows));
    }
    return status;
}

/// Returns the rows of all layouts: 4 B elements first, then 16 B ones, which need fewer accesses for the same bytes.
absl::StatusOr<ordered_json> run_access(const settings& s) {
    using word = std::uint32_t;
    ordered_json rows = ordered_json::array();
    absl::Status status = measure_linear<word, chains::yes>(s, short_arrays, nullptr, rows);
    // Measures the next layout unless an earlier one failed.
    const auto next = [&](absl::Status (*measure)(const settings&, array_set, linear_times*, ordered_json&)) {
        if (status.ok()) {
            status.Update(measure(s, short_arrays, nullptr, rows));
        }
    };
    next(measure_tile<word, chains::yes, tile::b4>);
    next(measure_tile<word, chains::yes, tile::b16>);
    next(measure_tile<word, chains::no, tile::b64>);
    // Rows of more than 64 KiB would require a segment of their own.
    next(measure_tile<word, chains::no, tile::k4, 16>);
    next(measure_linear<quad, chains::no>);
    next(measure_tile<quad, chains::no, tile::b16>);
    if (status.ok()) {
        status.Update(measure_long(s, rows));
    }
    return status.ok() ? absl::StatusOr<ordered_json>(std::move(rows)) : status;
}

const registrar access_registered{
    {"access", "reads and writes through lane_array and lane_ptr, beside arithmetic by hand", run_access,
     "us and ns_per_100 are medians after one launch that does not count; first, third and tenth are those launches, "
     "counted from the first on, settled is the median of the last half"}};

}  // namespace
}  // namespace access
}  // namespace orchard::bench
