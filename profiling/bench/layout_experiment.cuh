// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Reads of arrays that lie on the host, one array for each thread, in one layout: `orchard bench managed` and
/// `ranges`. The driver services a fault by whole big pages of 64 KiB; a layout decides how many lanes profit from it.

#include <algorithm>
#include <bit>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "profiling/bench/bench.hpp"
#include "profiling/bench/managed_kernels.cuh"
#include "profiling/bench/repetitions.hpp"
#include "profiling/bench/watched_memory.hpp"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/heap.hpp"
#include "uvm/memory/managed_memory.hpp"

namespace orchard::bench {

/// Returns the options of a managed heap of `capacity` bytes whose memory moves by faults alone: no advice, no move on
/// grant.
inline options faulting_heap(const settings& s, std::uint64_t capacity) {
    options values = s.heap;
    values.device = s.device == simt::device_kind::cuda ? device_option::cuda : device_option::emulated;
    values.backing = backing_option::managed;
    values.capacity = capacity;
    values.advice = managed_advice::none;
    values.prefetch = false;
    return values;
}

/// The results of one pattern of reads: the launches in their order, and what they read.
struct pattern_result {
    std::string pattern;           ///< as the rows name it
    std::vector<double> ms;        ///< [launch] the kernel, which faults
    std::vector<double> moved_mb;  ///< [launch] what has left the host then, in 10^6 B
    double read_64k_mb = 0;        ///< the pages of 64 KiB in which a thread reads, in 10^6 B
    double read_4k_mb = 0;         ///< the same of 4 KiB
    std::uint64_t va_blocks = 0;   ///< VA blocks (2 MiB) in which a thread reads
};

/// The memory that a heap has granted for the arrays.
struct memory_use {
    std::uint64_t granted_bytes = 0;  ///< whole segments
    double prefetch_ms = 0;           ///< to move as many bytes, from the heap's first on, from the host to the GPU
};

/// Arrays of threads, all of them on the host, of which kernels read a small part: each thread 100 places, one after
/// the other. Each launch begins with all pages on the host: otherwise only the first one would fault.
class layout_experiment {
public:
    /// @param thread_bytes  of each thread's array; by hand a power of two
    /// @param capacity  of the heap for `run_by_heap`
    /// @param patterns  those to run, all unless given
    layout_experiment(const settings& s, std::uint64_t threads, std::uint64_t thread_bytes, std::uint64_t capacity,
                      std::vector<places> patterns = {places::same_in_warp, places::stride_64k, places::own})
        : s_{s},
          threads_{threads},
          count_{thread_bytes / sizeof(element)},
          capacity_{capacity},
          patterns_{std::move(patterns)} {}

    /// Returns the results for arrays of a heap, one for each pattern. Errors: those of the heap, of launches and of
    /// `map_on_host`; Internal if an array is missing.
    /// @param use  where the use of memory is written; null: not measured
    [[nodiscard]] absl::StatusOr<std::vector<pattern_result>> run_by_heap(layout how, memory_use* use = nullptr) const {
        auto made = heap::create(faulting_heap(s_, capacity_));
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
        const absl::Status status = allocated.ok ? arrays->download(got) : to_status(allocated);
        if (!status.ok()) {
            return status;
        }
        if (std::any_of(got.begin(), got.end(), [](const auto& a) { return a.empty(); })) {
            return absl::InternalError("a thread got no array");
        }
        char* const base = h.ref().view().base;
        // The whole heap is brought to the host, not only the arrays: moves are counted over all of it.
        const std::uint64_t all = h.configuration().capacity;
        const auto bring_home = [&] { return h.prefetch(base, all, memory_tier::host); };
        auto results = run_patterns(h.executor(), arrays_of_heap{arrays->data()}, base, all, bring_home);
        if (results.ok() && use != nullptr) {
            if (absl::Status s = measure_use(h, base, all, bring_home, *use); !s.ok()) {
                return s;
            }
        }
        return results;
    }

    /// Returns the same for plain managed memory, with index arithmetic in the kernel.
    [[nodiscard]] absl::StatusOr<std::vector<pattern_result>> run_by_hand(layout how) const {
        auto memory = s_.device == simt::device_kind::cuda ? make_cuda_managed_memory() : make_emulated();
        if (!memory.ok()) {
            return memory.status();
        }
        const std::uint64_t all = threads_ * count_ * sizeof(element);
        if (auto s = check_managed(s_, all); !s.ok()) {
            return s;
        }
        const auto base = (*memory)->allocate(all);
        if (!base.ok()) {
            return base.status();
        }
        simt::executor on;
        on.kind = s_.device;
        on.workers = static_cast<unsigned>(s_.heap.emulated_workers);
        // The tile in elements of 4 B, by its logarithm; 0 stands for linear.
        const std::uint32_t log_tile = how == layout::linear() ? 0 : log_of(how.turn) - 2;
        return run_patterns(on, arrays_by_hand{reinterpret_cast<element*>(*base), count_, log_tile}, *base, all,
                            [&] { return (*memory)->prefetch(*base, all, memory_tier::host); });
    }

private:
    /// Returns the emulated memory as the type that both branches share.
    static absl::StatusOr<std::unique_ptr<managed_memory>> make_emulated() { return make_emulated_managed_memory(); }

    /// Returns the shape of a launch; with few threads, one block of them.
    [[nodiscard]] simt::grid shape() const {
        return simt::grid_for(threads_, static_cast<std::uint32_t>(std::min<std::uint64_t>(256, threads_)));
    }

    /// Returns the name of a pattern in rows.
    static std::string name_of(places which) {
        switch (which) {
            case places::same_in_warp: return "same random offset in a warp";
            case places::stride_64k: return "stride of 64 KiB";
            default: return "each lane its own random offset";
        }
    }

    /// Returns the results of all patterns on one set of arrays.
    /// @param bring_home  moves all of [base, base + bytes) to the host
    template <class Arrays>
    [[nodiscard]] absl::StatusOr<std::vector<pattern_result>> run_patterns(
        const simt::executor& on, const Arrays& arrays, const char* base, std::uint64_t bytes,
        const std::function<absl::Status()>& bring_home) const {
        std::vector<pattern_result> results;
        for (const places which : patterns_) {
            pattern_result one;
            one.pattern = name_of(which);
            for (int i = -1; i < s_.repeats; ++i) {
                if (absl::Status status = map_on_host(base, bytes, bring_home); !status.ok()) {
                    return status;
                }
                if (absl::Status status = read_once(on, arrays, which, base, bytes, one); !status.ok()) {
                    return status;
                }
            }
            if (absl::Status status = count_read(on, arrays, which, base, bytes, one); !status.ok()) {
                return status;
            }
            results.push_back(std::move(one));
        }
        return results;
    }

    /// Measures what the arrays take of a heap at [base, base + bytes). The heap grants the lowest addresses that are
    /// free, so that its first segments are those that hold the arrays.
    static absl::Status measure_use(heap& h, char* base, std::uint64_t bytes,
                                    const std::function<absl::Status()>& bring_home, memory_use& use) {
        // Else refills that are under way would count, too.
        if (absl::Status trimmed = h.trim(); !trimmed.ok()) {
            return trimmed;
        }
        const auto stats = h.stats();
        if (!stats.ok()) {
            return stats.status();
        }
        use.granted_bytes =
            (stats->segments_granted - std::min(stats->segments_granted, stats->segments_in_cache)) * segment_bytes;
        absl::Status status = map_on_host(base, bytes, bring_home);
        use.prefetch_ms =
            milliseconds_of([&] { status.Update(h.prefetch(base, use.granted_bytes, memory_tier::device)); });
        return status;
    }

    /// Runs the kernel once, and adds its time and what has left the host to `to`.
    template <class Arrays>
    absl::Status read_once(simt::executor on, const Arrays& arrays, places which, const char* base, std::uint64_t bytes,
                           pattern_result& to) const {
        auto sums = device_array<element>::create(on, threads_);
        if (!sums.ok()) {
            return sums.status();
        }
        on.timed = true;
        const simt::launch_result done =
            simt::launch(on, shape(), read_places<Arrays>{reads(arrays, which), sums->data()});
        if (!done.ok) {
            return to_status(done);
        }
        // Counted after the kernel and before anything else brings pages back.
        const auto gone = bytes_moved_away(base, bytes);
        if (!gone.ok()) {
            return gone.status();
        }
        to.ms.push_back(done.microseconds / 1000);
        to.moved_mb.push_back(static_cast<double>(*gone) * 1e-6);
        return absl::OkStatus();
    }

    /// Counts the pages in which threads read. No access to the arrays' memory.
    template <class Arrays>
    absl::Status count_read(const simt::executor& on, const Arrays& arrays, places which, const char* base,
                            std::uint64_t bytes, pattern_result& to) const {
        const std::uint64_t pages = bytes / os_page_bytes;
        auto read = device_array<simt::device_word<std::uint32_t>>::create(on, (pages + 31) / 32);
        absl::Status status = read.status();
        if (status.ok()) {
            status.Update(read->zero());
        }
        if (!status.ok()) {
            return status;
        }
        const simt::launch_result done =
            simt::launch(on, shape(), mark_places<Arrays>{reads(arrays, which), base, read->data()});
        std::vector<std::uint32_t> words((pages + 31) / 32);
        status.Update(done.ok ? copy_to_host(on, words.data(), read->data(), words.size() * sizeof(words[0]))
                              : to_status(done));
        std::uint64_t small = 0;
        std::uint64_t big = 0;
        constexpr std::size_t words_of_block = segment_bytes / os_page_bytes / 32;
        std::size_t last_block = words.size();  // none
        for (std::size_t i = 0; i < words.size(); ++i) {
            const std::uint32_t word = words[i];
            small += static_cast<std::uint64_t>(std::popcount(word));
            // 16 pages of 4 KiB are one of 64 KiB.
            big += ((word & 0xffffu) != 0 ? 1u : 0u) + ((word >> 16) != 0 ? 1u : 0u);
            if (word != 0 && i / words_of_block != last_block) {
                last_block = i / words_of_block;
                ++to.va_blocks;
            }
        }
        to.read_4k_mb = static_cast<double>(small * os_page_bytes) * 1e-6;
        to.read_64k_mb = static_cast<double>(big * big_page_bytes) * 1e-6;
        return status;
    }

    /// Returns the reads of all threads: the same places in each launch, by hand and in a heap.
    template <class Arrays>
    [[nodiscard]] reads_of<Arrays> reads(const Arrays& arrays, places which) const {
        constexpr std::uint32_t reads_a_thread = 100;  // few beside the elements of an array
        constexpr std::uint32_t seed = 1;
        return {arrays, which, reads_a_thread, seed, threads_, count_};
    }

    const settings& s_;
    std::uint64_t threads_;  ///< each has one array
    std::uint64_t count_;    ///< elements of each array
    std::uint64_t capacity_;
    std::vector<places> patterns_;
};

}  // namespace orchard::bench
