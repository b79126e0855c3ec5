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
#include "profiling/bench/layout_experiment.cuh"
#include "profiling/bench/managed_kernels.cuh"
#include "profiling/bench/repetitions.hpp"
#include "profiling/bench/watched_memory.hpp"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/heap.hpp"
#include "runtime/nvtx/phase.hpp"
#include "runtime/options/byte_size.hpp"
#include "uvm/geometry/layout_text.hpp"
#include "uvm/memory/managed_memory.hpp"

namespace orchard::bench {
namespace {

using nlohmann::ordered_json;

/// Returns the bytes of memory that a measurement uses.
std::uint64_t all_bytes(const settings& s) { return (s.device == simt::device_kind::cuda && !s.quick ? 512 : 8) * mib; }

/// Returns the options of a managed heap for `all_bytes`, and an eighth more.
options managed(const settings& s) { return faulting_heap(s, all_bytes(s) * 9 / 8); }

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
        values.allow_oversubscription = discard;  // or nothing is discarded; the capacity fits the GPU all the same
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
        const nvtx::phase marked(nvtx::phase::migrate, r->bytes());
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
    values.allow_oversubscription = discard;  // as above
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

/// Adds the rows of arrays of `thread_bytes` for each thread: all layouts, each by hand and by a heap, which should
/// move the same bytes.
absl::Status add_layouts(const settings& s, std::uint64_t thread_bytes, ordered_json& rows) {
    const layout_experiment experiment(s, all_bytes(s) / thread_bytes, thread_bytes, all_bytes(s) * 9 / 8);
    for (const layout how : {layout::linear(), layout::interleaved(tile::k64), layout::interleaved(tile::k4)}) {
        const auto by_hand = experiment.run_by_hand(how);
        const auto by_heap = by_hand.ok() ? experiment.run_by_heap(how) : by_hand;
        if (!by_heap.ok()) {
            return by_heap.status();
        }
        for (const auto& [by, results] : {std::pair{"hand", &*by_hand}, std::pair{"lane_array", &*by_heap}}) {
            for (const pattern_result& one : *results) {
                rows.push_back({{"what", "reads of arrays on the host"},
                                {"pattern", one.pattern},
                                {"kib_a_thread", thread_bytes / kib},
                                {"layout", text_of(how)},
                                {"by", by},
                                {"ms", median_after(1, one.ms)},
                                {"moved_mb", median_after(1, one.moved_mb)}});
                add_repetitions(rows.back(), "", one.ms, "ms");
            }
        }
    }
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
            status.Update(add_layouts(few, bytes, rows));
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
