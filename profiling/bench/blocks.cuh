// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Blocks of many threads, one for each: one launch each allocates, stamps, checks and frees them. The benchmarks of
/// large requests (iterations, scaling, shortage, sizes) use it.
///
///     allocate        one kernel: thread i writes its block into blocks[i]           timed
///     stamp           one kernel: each thread writes values into its block
///     wrong_stamps    one kernel: each thread reads them back. Another value means   not timed
///                     that two blocks overlap
///     free            one kernel                                                     timed
///
/// Times are those of whole kernels, the store or load of the pointer included.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "device/arrays/lane_array.cuh"
#include "device/heap_arrays_impl.cuh"
#include "device/heap_ref.cuh"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/heap.hpp"
#include "uvm/geometry/layout_text.hpp"

namespace orchard::bench {

/// Says which threads request a block, and of how many bytes: from `least` up to but not including `below`, the same in
/// every launch of a `round`. Different rounds give different sizes, so that a heap cannot serve each thread with the
/// block that the thread had in the round before. Computed, not stored: a table of sizes would be read in the measured
/// time.
struct size_range {
    std::uint64_t least = 0;
    std::uint64_t below = 0;  ///< if `least` or less: all threads request `least`
    std::uint32_t round = 0;
    std::uint32_t lanes = 32;   ///< of each warp request a block; which ones differs from warp to warp
    std::uint32_t octaves = 0;  ///< not 0: each size is first multiplied by a random power of two below 2^octaves

    [[nodiscard]] ORCHARD_INLINE std::uint64_t operator()(std::uint64_t i) const {
        const std::uint32_t r = device::mix(static_cast<std::uint32_t>(i) + device::mix(round));
        const std::uint64_t size = below <= least ? least : least + r % (below - least);
        return octaves == 0 ? size : size << device::mix(r) % octaves;
    }
    /// Returns whether thread `i` requests a block. An odd factor permutes the lanes, so that they lie scattered. If
    /// all lanes do, nothing is computed in the measured time.
    [[nodiscard]] ORCHARD_INLINE bool asks(std::uint64_t i) const {
        return lanes == 32 || ((i % 32) * 11 + device::mix(static_cast<std::uint32_t>(i / 32))) % 32 < lanes;
    }
};

/// Blocks of `malloc`: the first of the two kinds of block. A kind names itself, allocates, frees, and recognises null.
struct linear_blocks {
    using block = std::uint32_t*;

    [[nodiscard]] std::string name() const { return "linear"; }
    [[nodiscard]] ORCHARD_INLINE block allocate(const heap_ref& heap, std::uint64_t bytes) const {
        return static_cast<block>(heap.malloc(bytes));
    }
    ORCHARD_INLINE void free(const heap_ref& heap, block b) const { heap.free(b); }
    static ORCHARD_INLINE bool is_null(block b) { return b == nullptr; }
};

/// Arrays of lanes, in one layout: the second kind. The arrays of a warp's lanes share one warp chunk, and a word of an
/// array is reached through the layout.
struct array_blocks {
    using block = lane_array<std::uint32_t>;

    layout how;  ///< how the lanes' arrays lie in the chunk

    [[nodiscard]] std::string name() const { return text_of(how); }
    [[nodiscard]] ORCHARD_INLINE block allocate(const heap_ref& heap, std::uint64_t bytes) const {
        return heap.allocate_array<std::uint32_t>(bytes / sizeof(std::uint32_t), how);
    }
    ORCHARD_INLINE void free(const heap_ref& heap, const block& b) const { heap.free_array(b); }
    static ORCHARD_INLINE bool is_null(const block& b) { return b.empty(); }
};

/// The kernel that allocates: one block for each thread that requests one. The others get a null block.
template <class Kind>
struct allocate_blocks {
    heap_ref heap;
    Kind kind;
    typename Kind::block* blocks;
    size_range bytes;
    std::uint64_t threads;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i >= threads) {
            return;
        }
        if (bytes.asks(i)) {
            blocks[i] = kind.allocate(heap, bytes(i));
        } else {
            blocks[i] = {};
        }
    }
};

/// The threads whose blocks a launch uses: all, or one of the two parts of `is_in`.
enum class blocks_of : std::uint32_t { all, dropped, kept };

/// Returns whether thread `i` belongs to a part. About half of all threads, at random, keep their blocks for longer
/// than the others. Kept and dropped blocks are then neighbours in memory: the holes that the dropped ones leave have
/// the length of single blocks, which is the hard case for an allocator.
ORCHARD_INLINE bool is_in(blocks_of which, std::uint64_t i) {
    const bool kept = (device::mix(static_cast<std::uint32_t>(i)) & 1) != 0;
    return which == blocks_of::all || (which == blocks_of::kept) == kept;
}

/// The kernel that frees the blocks of some threads. A null block is freed as well; that does nothing.
template <class Kind>
struct free_blocks {
    heap_ref heap;
    Kind kind;
    typename Kind::block* blocks;
    std::uint64_t threads;
    blocks_of which;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < threads && is_in(which, i)) {
            kind.free(heap, blocks[i]);
        }
    }
};

/// Writes (or checks) a value of the thread and the round in the first word of each 4 KiB of its block, and in the last
/// word. Not in every word, so that checks of many GiB take little time: an overlap of two blocks is found if both
/// stamp the same word, above all if both begin at the same address.
template <class Kind>
struct stamp_blocks {
    static constexpr std::uint64_t step = 4096 / sizeof(std::uint32_t);  ///< words from one stamp to the next

    typename Kind::block* blocks;
    size_range bytes;
    std::uint64_t threads;
    blocks_of which;
    simt::device_word<std::uint64_t>* wrong;  ///< null: write; else: the number of wrong words is added here
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i >= threads || !is_in(which, i) || Kind::is_null(blocks[i])) {
            return;
        }
        const auto words = blocks[i];
        const auto stamp = device::mix(static_cast<std::uint32_t>(i) ^ bytes.round);
        // The step to the last word is shorter than the others: the last word is always stamped.
        const std::uint64_t last = bytes(i) / sizeof(std::uint32_t) - 1;
        std::uint64_t bad = 0;
        for (std::uint64_t w = 0; w <= last; w = w < last && w + step > last ? last : w + step) {
            if (wrong == nullptr) {
                words[w] = stamp;
            } else {
                bad += words[w] != stamp;
            }
        }
        if (bad != 0) {
            wrong->fetch_add<simt::order::relaxed>(bad);
        }
    }
};

/// Owns the blocks of `threads` threads. The heap outlives it. `free` frees the blocks; the destructor does not.
template <class Kind>
class block_set {
public:
    /// Returns a set without blocks. Errors: those of `device_array`.
    static absl::StatusOr<block_set> create(heap& h, Kind kind, std::uint64_t threads) {
        block_set made(h, kind, threads);
        auto blocks = device_array<typename Kind::block>::create(made.on_, threads);
        auto wrong = device_array<simt::device_word<std::uint64_t>>::create(made.on_, 1);
        absl::Status status = blocks.status();
        status.Update(wrong.status());
        if (!status.ok()) {
            return status;
        }
        made.blocks_ = *std::move(blocks);
        made.wrong_ = *std::move(wrong);
        return made;
    }

    /// Lets all threads allocate, and remembers the sizes for the stamps. Returns the microseconds of the kernel.
    /// Errors, here and below: the launch's own. A thread that got null is no error (`nulls`).
    absl::StatusOr<double> allocate(size_range bytes) {
        bytes_ = bytes;
        return launch(allocate_blocks<Kind>{heap_->ref(), kind_, blocks_.data(), bytes, threads_});
    }
    /// Frees the blocks of the threads `which`. Returns the microseconds of the kernel.
    absl::StatusOr<double> free(blocks_of which = blocks_of::all) {
        return launch(free_blocks<Kind>{heap_->ref(), kind_, blocks_.data(), threads_, which});
    }
    /// Stamps the blocks of all threads with values of the last `allocate`.
    absl::Status stamp() {
        return launch(stamp_blocks<Kind>{blocks_.data(), bytes_, threads_, blocks_of::all, nullptr}).status();
    }
    /// Returns the number of words that differ from the values of `stamp`.
    absl::StatusOr<std::uint64_t> wrong_stamps(blocks_of which = blocks_of::all) {
        // Stamps and checks are separate kernels: the end of the first one makes all its writes visible to the second
        // one.
        absl::Status status = wrong_.zero();
        status.Update(launch(stamp_blocks<Kind>{blocks_.data(), bytes_, threads_, which, wrong_.data()}).status());
        std::uint64_t wrong = 0;
        status.Update(copy_to_host(on_, &wrong, wrong_.data(), sizeof(wrong)));
        return status.ok() ? absl::StatusOr<std::uint64_t>(wrong) : status;
    }
    /// Returns the number of threads that requested a block and got null in the last `allocate`. Cost: a copy of all
    /// pointers.
    absl::StatusOr<std::uint64_t> nulls() const {
        std::vector<typename Kind::block> blocks(threads_);
        if (absl::Status s = blocks_.download(blocks); !s.ok()) {
            return s;
        }
        std::uint64_t nulls = 0;
        for (std::uint64_t i = 0; i < threads_; ++i) {
            nulls += Kind::is_null(blocks[i]) && bytes_.asks(i) ? 1u : 0u;
        }
        return nulls;
    }
    /// Return the number of threads, and the name of the kind in rows.
    [[nodiscard]] std::uint64_t threads() const { return threads_; }
    [[nodiscard]] std::string name() const { return kind_.name(); }

private:
    block_set(heap& h, Kind kind, std::uint64_t threads)
        : heap_{&h}, on_{h.executor()}, kind_{kind}, threads_{threads} {
        on_.timed = true;
    }
    /// Runs one kernel with a thread for each block, and waits for its end. Returns its microseconds.
    template <class Kernel>
    absl::StatusOr<double> launch(const Kernel& kernel) {
        const simt::launch_result result = simt::launch(on_, simt::grid_for(threads_), kernel);
        if (!result.ok) {
            return to_status(result);
        }
        return result.microseconds;
    }

    heap* heap_;
    simt::executor on_;
    Kind kind_;
    std::uint64_t threads_;
    size_range bytes_{};                                    ///< of the last `allocate`
    device_array<typename Kind::block> blocks_;             ///< [threads]
    device_array<simt::device_word<std::uint64_t>> wrong_;  ///< one word: the result of `wrong_stamps`
};

/// Times of launches of one kind, in the order of the launches; their median is reported.
struct times {
    std::vector<double> allocate_us;
    std::vector<double> free_us;
};

/// The combined results of all checked launches of a row. Both are 0 unless the heap is full or faulty.
struct outcome {
    std::uint64_t nulls = 0;  ///< threads that got null
    std::uint64_t wrong = 0;  ///< words with another value than was written
};

/// Runs one launch that allocates and one that frees, and appends their times to `t`. With `check`, the blocks are
/// stamped and read back in between, nulls are counted and the heap is validated; `all` sums up what was found. Checks
/// are not part of the times, but the launch that frees finds the caches as they left them. Errors: those of the
/// launches; Internal if the heap is inconsistent.
template <class Kind>
absl::Status cycle(heap& h, block_set<Kind>& blocks, size_range bytes, bool check, times& t, outcome& all) {
    const auto allocated = blocks.allocate(bytes);
    absl::Status status = allocated.status();
    if (status.ok() && check) {
        status.Update(blocks.stamp());
        const auto wrong = blocks.wrong_stamps();
        const auto nulls = blocks.nulls();
        status.Update(wrong.status());
        status.Update(nulls.status());
        status.Update(h.validate());
        if (status.ok()) {
            all.wrong += *wrong;
            all.nulls += *nulls;
        }
    }
    // Freed even if a check failed, so that the next row begins with an empty heap.
    const auto freed = blocks.free();
    status.Update(freed.status());
    if (status.ok()) {
        t.allocate_us.push_back(*allocated);
        t.free_us.push_back(*freed);
    }
    return status;
}

}  // namespace orchard::bench
