// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard bench managed`: memory that the UVM driver moves. It measures the cost of layouts of lane arrays, compared
/// with the same layouts written by hand; the gain from discarding freed memory; and the cost of the first touch under
/// each advice. At most 1 GiB of managed memory at a time, all of which fits the GPU.
///
///     reads of arrays on the host      each thread reads 100 places of its array. ms: the kernel, which faults;
///                                      moved_mb: bytes that have then left the host, more than were asked for
///     freed memory (given up) back     blocks that kernels wrote are freed; ms: moving their addresses to the host.
///     to the host                      given up: with the option `discard`. moved_mb: contents that came along
///     freed on the host (given up),    the opposite direction: contents that came to the GPU; no time
///     taken again
///     first touch of new memory        ms: writing a word of each page for the first time; again_ms: once more
///
/// Kernels are timed by CUDA events, moves to the host by the host's clock. Medians after one launch that does not
/// count; at most three launches, because each begins with moving everything back to the host.

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "profiling/bench/bench.hpp"
#include "profiling/bench/managed_kernels.cuh"
#include "profiling/bench/repetitions.hpp"
#include "profiling/bench/watched_memory.hpp"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/heap.hpp"
#include "uvm/geometry/layout_text.hpp"
#include "uvm/memory/managed_memory.hpp"

namespace orchard::bench {
namespace {

using nlohmann::ordered_json;

constexpr std::uint64_t kib = 1 << 10;
constexpr std::uint64_t mib = 1 << 20;
/// Reads of each thread; few beside the elements of its array.
constexpr std::uint32_t reads_a_thread = 100;

/// Returns the bytes of memory that a measurement uses.
std::uint64_t all_bytes(const settings& s) { return (s.device == simt::device_kind::cuda && !s.quick ? 512 : 8) * mib; }

/// Returns the options of a managed heap whose memory moves by faults alone: no advice, no move on grant.
options managed(const settings& s) {
    options values = s.heap;
    values.device = s.device == simt::device_kind::cuda ? device_option::cuda : device_option::emulated;
    values.backing = backing_option::managed;
    // An eighth more than the arrays or blocks.
    values.capacity = all_bytes(s) * 9 / 8;
    values.advice = managed_advice::none;
    values.prefetch = false;
    return values;
}

/// The results of one launch of `layout_experiment`.
struct moved {
    double ms;
    std::uint64_t bytes;  ///< moved from the host to the GPU
};

/// The experiment of docs/limits.md: arrays of threads, all of them on the host, of which kernels read a small part.
/// The driver services a fault by whole big pages of 64 KiB; a layout decides how many lanes profit from it.
class layout_experiment {
public:
    /// @param thread_bytes  of each thread's array; the number of threads follows from it
    layout_experiment(const settings& s, std::uint64_t thread_bytes)
        : s_{s}, threads_{all_bytes(s) / thread_bytes}, count_{thread_bytes / sizeof(element)} {}

    /// Adds the rows of all layouts, each by hand and by a heap, which should move the same bytes.
    absl::Status run(ordered_json& rows) {
        // Linear, in tiles of a big page, in tiles of an OS page.
        for (const layout how : {layout::linear(), layout::interleaved(tile::k64), layout::interleaved(tile::k4)}) {
            absl::Status status = run_by_hand(how);
            if (status.ok()) {
                status.Update(run_by_heap(how));
            }
            if (!status.ok()) {
                return status;
            }
        }
        rows.insert(rows.end(), rows_.begin(), rows_.end());
        return absl::OkStatus();
    }

private:
    /// Measures arrays of a heap. Errors: those of the heap, of launches and of `map_on_host`; Internal if an array is
    /// missing.
    absl::Status run_by_heap(layout how) {
        auto made = heap::create(managed(s_));
        if (!made.ok()) {
            return made.status();
        }
        heap h = *std::move(made);
        auto arrays = device_array<lane_array<element>>::create(h.executor(), threads_);
        if (!arrays.ok()) {
            return arrays.status();
        }
        // One launch of all threads, so that the lanes of a warp share a chunk.
        const simt::launch_result allocated =
            simt::launch(h.executor(), shape(), allocate_arrays{h.ref(), how, arrays->data(), threads_, count_});
        std::vector<lane_array<element>> got(threads_);
        absl::Status status = allocated.ok ? arrays->download(got) : to_status(allocated);
        if (!status.ok()) {
            return status;
        }
        if (std::any_of(got.begin(), got.end(), [](const auto& a) { return a.empty(); })) {
            return absl::InternalError("a thread got no array");
        }
        char* const base = h.ref().view().base;
        // The whole heap is brought to the host, not only the arrays: moves are counted over all of it.
        return run_patterns(h.executor(), arrays_of_heap{arrays->data()}, "lane_array", how, base,
                            h.configuration().capacity,
                            [&] { return h.prefetch(base, h.configuration().capacity, memory_tier::host); });
    }

    /// Measures the same layout in plain managed memory, with index arithmetic in the kernel.
    absl::Status run_by_hand(layout how) {
        auto memory = s_.device == simt::device_kind::cuda ? make_cuda_managed_memory() : make_emulated();
        if (!memory.ok()) {
            return memory.status();
        }
        const auto base = (*memory)->allocate(all_bytes(s_));
        if (!base.ok()) {
            return base.status();
        }
        simt::executor on;
        on.kind = s_.device;
        on.workers = static_cast<unsigned>(s_.heap.emulated_workers);
        // The tile in elements of 4 B, by its logarithm; 0 stands for linear.
        const std::uint32_t log_tile = how == layout::linear() ? 0 : log_of(how.turn) - 2;
        return run_patterns(on, arrays_by_hand{reinterpret_cast<element*>(*base), count_, log_tile}, "hand", how, *base,
                            all_bytes(s_),
                            [&] { return (*memory)->prefetch(*base, all_bytes(s_), memory_tier::host); });
    }
    /// Returns the emulated memory as the type that both branches share.
    static absl::StatusOr<std::unique_ptr<managed_memory>> make_emulated() { return make_emulated_managed_memory(); }

    /// Returns the shape of a launch; with few threads, one block of them.
    [[nodiscard]] simt::grid shape() const {
        return simt::grid_for(threads_, static_cast<std::uint32_t>(std::min<std::uint64_t>(256, threads_)));
    }

    /// Measures each pattern of reads on one set of arrays, and adds its rows.
    /// @param bring_home  moves all of [base, base + bytes) to the host
    template <class Arrays>
    absl::Status run_patterns(const simt::executor& on, const Arrays& arrays, const char* by, layout how,
                              const char* base, std::uint64_t bytes, const std::function<absl::Status()>& bring_home) {
        // The names are those of `places`.
        for (const auto& [which, name] : {std::pair{places::same_in_warp, "same random offset in a warp"},
                                          std::pair{places::stride_64k, "stride of 64 KiB"},
                                          std::pair{places::own, "each lane its own random offset"}}) {
            std::vector<double> times;
            std::vector<double> megabytes;
            for (int i = -1; i < s_.repeats; ++i) {
                // Each launch begins with all pages on the host: otherwise only the first one would fault.
                absl::Status status = map_on_host(base, bytes, bring_home);
                const auto one = status.ok() ? read_once(on, arrays, which, base, bytes) : status;
                if (!one.ok()) {
                    return one.status();
                }
                times.push_back(one->ms);
                // 10^6 bytes.
                megabytes.push_back(static_cast<double>(one->bytes) * 1e-6);
            }
            rows_.push_back({{"what", "reads of arrays on the host"},
                             {"pattern", name},
                             {"kib_a_thread", count_ * sizeof(element) / kib},
                             {"layout", text_of(how)},
                             {"by", by},
                             {"ms", median_after(1, times)},
                             {"moved_mb", median_after(1, megabytes)}});
            add_repetitions(rows_.back(), "", times, "ms");
        }
        return absl::OkStatus();
    }

    /// Runs the kernel once, and counts what has left the host.
    template <class Arrays>
    absl::StatusOr<moved> read_once(simt::executor on, const Arrays& arrays, places which, const char* base,
                                    std::uint64_t bytes) {
        auto sums = device_array<element>::create(on, threads_);
        if (!sums.ok()) {
            return sums.status();
        }
        on.timed = true;
        // The same places in each launch, by hand and in a heap.
        constexpr std::uint32_t seed = 1;
        const simt::launch_result done = simt::launch(
            on, shape(), read_places<Arrays>{arrays, which, reads_a_thread, seed, threads_, count_, sums->data()});
        if (!done.ok) {
            return to_status(done);
        }
        // Counted after the kernel and before anything else brings pages back.
        const auto gone = bytes_moved_away(base, bytes);
        if (!gone.ok()) {
            return gone.status();
        }
        return moved{done.microseconds / 1000, *gone};
    }

    const settings& s_;
    std::uint64_t threads_;  ///< each has one array
    std::uint64_t count_;    ///< elements of each array
    ordered_json rows_ = ordered_json::array();
};

/// A managed heap and large blocks of it: 1 MiB each, as many as fill `all_bytes`.
class large_blocks_run {
public:
    /// Returns the heap with an empty list. Errors: those of the heap and of `device_array`.
    static absl::StatusOr<large_blocks_run> make(const settings& s, const options& values) {
        large_blocks_run r;
        auto h = heap::create(values);
        if (!h.ok()) {
            return h.status();
        }
        r.heap_ = std::make_unique<heap>(*std::move(h));
        r.on_ = r.heap_->executor();
        r.on_.timed = true;
        auto blocks = device_array<char*>::create(r.on_, all_bytes(s) / mib);
        if (!blocks.ok()) {
            return blocks.status();
        }
        r.blocks_ = *std::move(blocks);
        r.list_ = {r.blocks_.data(), all_bytes(s) / mib, mib};
        return r;
    }
    /// Allocate and free all blocks, one for each thread. The kernels are not timed.
    absl::Status take() { return launch(take_blocks{heap_->ref(), list_}, list_.count).status(); }
    absl::Status give() { return launch(give_blocks{heap_->ref(), list_}, list_.count).status(); }
    /// Writes a word of each page; returns the time in ms.
    absl::StatusOr<double> write() { return launch(write_pages{list_}, list_.count * list_.bytes / os_page_bytes); }
    /// Returns the bytes of the heap's pages in which the host finds the values of `write`. The host marks these pages.
    /// This shows by contents whether a page's data came along.
    std::uint64_t mark_on_host() {
        const std::uint64_t all = list_.count * list_.bytes / os_page_bytes;
        std::uint64_t pages = 0;
        // All pages of the heap: the blocks may lie anywhere in it.
        for (std::uint64_t at = 0; at < bytes(); at += os_page_bytes) {
            std::uint64_t word = 0;
            std::memcpy(&word, base() + at, sizeof(word));
            if (was_written(word, all)) {
                ++pages;
                word = marked_by_host(word, all);
                std::memcpy(base() + at, &word, sizeof(word));
            }
        }
        return pages * os_page_bytes;
    }
    /// Returns the bytes of the blocks' pages in which kernels find the host's marks.
    absl::StatusOr<std::uint64_t> marked_on_device() {
        auto found = device_array<simt::device_word<std::uint64_t>>::create(on_, 1);
        if (!found.ok()) {
            return found.status();
        }
        simt::device_word<std::uint64_t> pages{0};
        // A page that nobody marked does not count, whatever it holds.
        absl::Status status =
            launch(count_marked_pages{list_, found->data()}, list_.count * list_.bytes / os_page_bytes).status();
        status.Update(copy_to_host(on_, &pages, found->data(), sizeof(pages)));
        if (!status.ok()) {
            return status;
        }
        return pages.load<simt::order::relaxed>() * os_page_bytes;
    }
    /// Return the heap, and the range of its addresses.
    [[nodiscard]] heap& of() { return *heap_; }
    [[nodiscard]] char* base() const { return heap_->ref().view().base; }
    [[nodiscard]] std::uint64_t bytes() const { return heap_->configuration().capacity; }
    /// Lets the host map all of the heap's memory (`map_on_host`).
    absl::Status bring_home() {
        return map_on_host(base(), bytes(), [&] { return heap_->prefetch(base(), bytes(), memory_tier::host); });
    }

private:
    large_blocks_run() = default;
    /// Runs a kernel and returns its time in ms.
    template <class Kernel>
    absl::StatusOr<double> launch(const Kernel& kernel, std::uint64_t threads) {
        const simt::launch_result done = simt::launch(on_, simt::grid_for(threads), kernel);
        if (!done.ok) {
            return to_status(done);
        }
        return done.microseconds / 1000;
    }

    std::unique_ptr<heap> heap_;
    simt::executor on_;
    device_array<char*> blocks_;
    large_blocks list_{};  ///< the list as kernels get it
};

/// Measures the cost of moving memory to the host whose blocks have been freed, with and without discarding, and how
/// much of the contents moves with it. Each repetition has a new heap.
absl::Status time_discard(const settings& s, bool discard, ordered_json& rows) {
    std::vector<double> times;
    std::uint64_t bytes = 0;
    std::uint64_t arrived = 0;
    for (int i = -1; i < s.repeats; ++i) {
        options values = managed(s);
        values.discard = discard;
        auto r = large_blocks_run::make(s, values);
        if (!r.ok()) {
            return r.status();
        }
        // All pages begin on the host: what is then missing there has moved by the writes.
        absl::Status status = r->bring_home();
        status.Update(r->take());
        status.Update(r->write().status());
        const auto gone = bytes_moved_away(r->base(), r->bytes());
        status.Update(gone.status());
        status.Update(r->give());
        // Freed memory waits on the device; `trim` returns it to the host, which gives its contents up with `discard`.
        status.Update(r->of().trim());
        const absl::Time began = absl::Now();
        status.Update(r->of().prefetch(r->base(), r->bytes(), memory_tier::host));
        if (!status.ok()) {
            return status;
        }
        // Of the last repetition, as `arrived`; only times have a median.
        bytes = *gone;
        times.push_back(absl::ToDoubleMilliseconds(absl::Now() - began));
        // Not timed: it touches every page.
        arrived = r->mark_on_host();
    }
    rows.push_back({{"what", discard ? "freed memory, given up, back to the host" : "freed memory back to the host"},
                    {"written_mb", static_cast<double>(bytes) * 1e-6},
                    {"moved_mb", static_cast<double>(arrived) * 1e-6},
                    {"ms", median_after(1, times)}});
    add_repetitions(rows.back(), "", times, "ms");
    return absl::OkStatus();
}

/// The opposite direction: blocks that the host has written are freed, and kernels take their memory again. Adds one
/// row. The GPU's memory may still hold data of earlier kernels, so the marks to find are those of the host.
absl::Status count_reuse(const settings& s, bool discard, ordered_json& rows) {
    options values = managed(s);
    values.discard = discard;
    auto r = large_blocks_run::make(s, values);
    if (!r.ok()) {
        return r.status();
    }
    absl::Status status = r->take();
    // Every page has a value of its own, which the host can recognise and mark.
    const auto written = r->write();
    status.Update(written.status());
    status.Update(r->bring_home());
    // Only the side effect is wanted: the host's marks.
    if (status.ok()) {
        (void)r->mark_on_host();
    }
    status.Update(r->give());
    status.Update(r->of().trim());
    status.Update(r->take());
    const auto arrived = r->marked_on_device();
    status.Update(arrived.status());
    if (!status.ok()) {
        return status;
    }
    rows.push_back({{"what", discard ? "freed on the host, given up, taken again" : "freed on the host, taken again"},
                    {"written_mb", static_cast<double>(all_bytes(s)) * 1e-6},
                    {"moved_mb", static_cast<double>(*arrived) * 1e-6}});
    return absl::OkStatus();
}

/// Measures the cost of the first writes to pages that were never touched, and of the next writes. Each repetition has
/// a new heap.
absl::Status time_first_touch(const settings& s, managed_advice advice, const char* name, bool prefetch,
                              ordered_json& rows) {
    std::vector<double> first;
    std::vector<double> again;
    for (int i = -1; i < s.repeats; ++i) {
        options values = managed(s);
        values.advice = advice;
        // With `prefetch`, the move happens when memory is granted: in `take`, not in the timed write.
        values.prefetch = prefetch;
        auto r = large_blocks_run::make(s, values);
        absl::Status status = r.status();
        if (status.ok()) {
            status.Update(r->take());
        }
        const auto one = status.ok() ? r->write() : status;
        // The second writes find all pages mapped: the difference is the cost of the first touch.
        const auto two = one.ok() ? r->write() : one;
        if (!two.ok()) {
            return two.status();
        }
        first.push_back(*one);
        again.push_back(*two);
    }
    rows.push_back({{"what", "first touch of new memory"},
                    {"advice", name},
                    {"prefetch", prefetch ? "on grant" : "no"},
                    {"written_mb", static_cast<double>(all_bytes(s)) * 1e-6},
                    {"ms", median_after(1, first)},
                    {"again_ms", median_after(1, again)}});
    add_repetitions(rows.back(), "", first, "ms");
    add_repetitions(rows.back(), "again", again, "ms");
    return absl::OkStatus();
}

absl::StatusOr<ordered_json> run_managed(const settings& s) {
    settings few = s;
    few.repeats = std::min(s.repeats, 3);
    ordered_json rows = ordered_json::array();
    absl::Status status;
    // 1,024 threads of 512 KiB, or 128 of 4 MiB.
    for (const std::uint64_t bytes :
         s.quick ? std::vector<std::uint64_t>{64 * kib, 256 * kib} : std::vector<std::uint64_t>{512 * kib, 4 * mib}) {
        if (status.ok()) {
            status.Update(layout_experiment(few, bytes).run(rows));
        }
    }
    for (const bool discard : {false, true}) {
        if (status.ok()) {
            status.Update(time_discard(few, discard, rows));
        }
        if (status.ok()) {
            status.Update(count_reuse(few, discard, rows));
        }
    }
    // All pages are new: the advice decides where they are placed and at what cost.
    const auto touch = [&](managed_advice advice, const char* name, bool prefetch) {
        if (status.ok()) {
            status.Update(time_first_touch(few, advice, name, prefetch, rows));
        }
    };
    touch(managed_advice::first_touch_gpu, "first_touch_gpu", false);
    touch(managed_advice::none, "none", false);
    touch(managed_advice::cpu_resident, "cpu_resident", false);
    touch(managed_advice::first_touch_gpu, "first_touch_gpu", true);
    return status.ok() ? absl::StatusOr<ordered_json>(rows) : status;
}

const registrar managed_registered{
    {"managed", "layouts, freed memory and first touches where the UVM driver moves memory", run_managed,
     "ms is the median after one launch that does not count; first and third are those "
     "launches, counted from the first "
     "on, settled is the median of the last half; freed memory and first touches are of a heap "
     "of their own each time"}};

}  // namespace
}  // namespace orchard::bench
