// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Managed memory as the driver keeps it: the location of each page, the memory of each VA block, and the effect of one
/// service of a VA block. Time and batches are in `paging_model`.
///
///     space     | segment 0           | segment 1           | ...        2 MiB each
///     blocks    | block 0             | block 1   | block 5 |            a policy boundary has truncated block 1; the
///                                                                        rest, block 5, is its `va_block::next`
///     states    8 x page_states       8 x page_states                    512 pages; 64 a word, eight kinds of bits
///     chunks      chunk 3                chunk 0 (shared)                2 MiB of GPU memory, or none
///
///     managed_space.cpp     blocks, policies, splits; the end of a run
///     managed_service.cpp   one service of one block: where each page goes, and prefetched pages
///     managed_memory.cpp    chunks, evictions, the counts of used pages
///     managed_calls.cpp     prefetch, discard, populate
///     managed_validate.cpp  the checks of all of this

#include <cstdint>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "uvm/model/chunk_list.hpp"
#include "uvm/model/event_log.hpp"
#include "uvm/model/page_mask.hpp"
#include "uvm/model/prefetch_tree.hpp"
#include "uvm/model/result.hpp"
#include "uvm/model/va_block.hpp"

namespace orchard::uvm_model {

/// The work of one service, or of one call; its cost is computed from this.
struct work {
    std::uint32_t pages = 0;       ///< pages that faulted and were serviced
    std::uint64_t pages_in = 0;    ///< pages copied to the GPU, prefetched ones included
    std::uint64_t pages_out = 0;   ///< pages copied to the CPU
    std::uint32_t copies_in = 0;   ///< runs of consecutive pages, whether they faulted or were prefetched
    std::uint32_t copies_out = 0;  ///< runs of consecutive pages
    std::uint32_t evictions = 0;   ///< 2 MiB chunks
    std::uint32_t returns = 0;     ///< chunks, or regions, given to a block that had lost one by an eviction

    /// Adds the work of another service or call.
    work& operator+=(const work& other);
};

/// The faults of one batch in one VA block.
struct block_faults {
    page_mask read;   ///< pages with faults of reads only
    page_mask write;  ///< pages with a fault of a write or an atomic
    /// Returns all pages with a fault.
    [[nodiscard]] page_mask all() const { return read | write; }
    /// Returns the faults without those of `other`, kind by kind.
    [[nodiscard]] block_faults without(const block_faults& other) const {
        return {read.without(other.read), write.without(other.write)};
    }
};

/// What the GPU's accesses to pages on the host do.
enum class host_access : std::uint8_t {
    faults,  ///< they fault, but for pages that advice maps
    remote,  ///< they reach host memory: pages that only the CPU has are mapped for the GPU at once
};

/// A managed space that begins at a multiple of 2 MiB, and the memory of one GPU.
///
/// Initially no page is on the GPU or the CPU. Every function with a range takes whole OS pages inside the space;
/// otherwise it returns `InvalidArgument` and changes nothing. 612 bytes for each segment (24 GB: 7.5 MB).
class managed_space {
public:
    /// @param bytes  size of the space: whole OS pages, above 0
    /// @param chunks  2 MiB chunks of GPU memory; at least 1
    managed_space(std::uint64_t bytes, std::uint64_t chunks, host_access host = host_access::faults);

    /// Return the bytes of the space, the number of chunks that the GPU's memory has, and of those in use.
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
    [[nodiscard]] std::uint64_t capacity_chunks() const { return chunks_.capacity(); }
    [[nodiscard]] std::uint64_t used_chunks() const { return chunks_.used(); }

    /// Returns the states of the 64 pages with numbers [64 `word`, 64 `word` + 64), against which accesses are checked.
    [[nodiscard]] page_states& states(std::uint64_t word) { return states_[word]; }
    [[nodiscard]] const page_states& states(std::uint64_t word) const { return states_[word]; }

    /// Returns the index of the VA block that contains OS page `page` of the space. Cost: follows the list of the
    /// segment's blocks.
    [[nodiscard]] std::uint32_t block_of(std::uint64_t page) const;
    /// Return a VA block, and the number of blocks. The first block of segment i has index i; blocks that splits have
    /// made come after these.
    [[nodiscard]] const va_block& block(std::uint32_t index) const { return blocks_[index]; }
    [[nodiscard]] std::uint32_t blocks() const { return static_cast<std::uint32_t>(blocks_.size()); }
    /// Returns the number in the space of the first page of a segment.
    [[nodiscard]] static std::uint64_t first_page(std::uint32_t segment) {
        return std::uint64_t{segment} * pages_per_segment;
    }
    /// Returns one kind of state of all pages of a segment.
    [[nodiscard]] page_mask mask(std::uint32_t segment, std::uint64_t page_states::*kind) const;

    /// Services the faults of a batch in one VA block: rules P1 to P5, F3, E1 to E3 and section 4 of docs/uvm.md. Pages
    /// in `faults` belong to the block. Faults that require no work any more are counted as stale.
    /// @param threshold  of the prefetcher, as for `prefetch_mask`
    /// Source:
    /// `uvm_gpu_replayable_faults.c: service_fault_batch_block`, `uvm_va_block.c: uvm_va_block_service_locked`,
    /// `uvm_va_block_select_residency`, `uvm_va_block_make_resident`.
    work service(std::uint32_t block, const block_faults& faults, std::uint32_t threshold = prefetch_threshold);

    /// Models `cudaMemAdvise`. If a border of the range lies inside a VA block, it truncates the block, unless the
    /// advice changes nothing there. Pages keep their locations. `accessed_by` makes pages on the CPU accessible at
    /// once. Source: `uvm_policy.c: split_as_needed`, `uvm_set_preferred_location`, `uvm_set_accessed_by`,
    /// `uvm_va_range_set_read_duplication`.
    absl::Status advise(byte_range range, advice what);

    /// Models `cudaMemPrefetchAsync`: brings all of the range to `to`, without the tree, and marks chunks young. With
    /// read-mostly it makes copies. Source: `uvm_migrate.c: uvm_va_block_migrate_locked`.
    absl::StatusOr<work> prefetch(byte_range range, processor to);

    /// Models `cudaMemDiscardBatchAsync`: discards the contents of the range. They are not written back on eviction,
    /// move without bytes, and fault once more at the next access. A write or `prefetch` ends the discarded state.
    absl::Status discard(byte_range range);

    /// Models writes by `at` to the range: pages without a location are placed at `at`, all other pages stay. Returns
    /// the work, which consists only of evictions.
    absl::StatusOr<work> populate(byte_range range, processor at);

    /// Unmaps the pages on the host in the big page of page `page`, as far as they belong to its VA block: the GPU's
    /// next access to them faults, and brings them.
    void unmap_host_region(std::uint64_t page);

    /// Counts the pages that are on the GPU now as brought, and as used or unused, and sets the counts that belong to
    /// the end.
    void close(result& r);
    /// Returns the counts; the caller maintains steps, accesses, batches and time.
    [[nodiscard]] result& counts() { return counts_; }
    /// Adds moves and evictions to `log` from now on, not stamped yet; null ends that. `log` must outlive the object or
    /// the next call. Cost: one comparison for each service without a log; a few ns for each event with one.
    void record(event_log* log) { log_ = log; }

    /// Checks every page's state, every block's memory and every chunk against each other. Errors: `Internal` names the
    /// first fault. Cost: O(space).
    [[nodiscard]] absl::Status validate() const;

private:
    friend struct managed_space_peer;

    /// The contents of a chunk of memory: a complete block, or regions of truncated ones. `block` is `no_index` in the
    /// second case, and also for a free chunk, whose `parts` are empty.
    struct chunk_content {
        std::uint32_t block = no_index;
        /// A region of a truncated block (`region_of`).
        struct part {
            std::uint32_t block;
            std::uint32_t region;
        };
        std::vector<part> parts;
    };

    // managed_space.cpp
    // Each function below is described at its definition. "Block" arguments are indices in `blocks_`.
    [[nodiscard]] absl::Status check(byte_range range) const;
    template <class F>
    void each_block(byte_range range, F&& f);
    void split(std::uint32_t block, std::uint32_t page);
    void split_at(std::uint64_t page);
    void become_truncated(std::uint32_t index, const va_block& whole, const std::vector<chunk_index>& chunks);
    void set_policy(std::uint32_t block, policy p);
    void map_remote(const va_block& block, const page_mask& pages);
    page_states* states_of(const va_block& block) { return &states_[first_page(block.segment) / 64]; }

    // managed_service.cpp
    [[nodiscard]] block_faults open_of(const va_block& block, const block_faults& faults) const;
    [[nodiscard]] block_faults remote_of(const va_block& block, const block_faults& open) const;
    void map_host_memory(std::uint32_t index, const block_faults& faults);
    void bring(std::uint32_t index, const block_faults& faults, const page_mask& prefetched, work& done);
    void note(const va_block& block, const page_mask& pages, movement what);
    [[nodiscard]] page_mask prefetch_for(const va_block& block, const page_mask& faulted,
                                         std::uint32_t threshold) const;

    // managed_memory.cpp
    void provide(std::uint32_t block, const page_mask& pages, work& done);
    void provide_region(std::uint32_t block, std::uint32_t region, work& done);
    chunk_index take_chunk(work& done);
    void evict(chunk_index chunk, work& done);
    void release_empty(std::uint32_t block);
    void release(std::uint32_t block);
    void release_region(std::uint32_t block, std::uint32_t region);
    void remove(std::uint32_t block, const page_mask& pages, work& done);
    void count_use(const va_block& block, const page_mask& pages);
    void arrive(va_block& block, std::uint32_t pages);
    void leave(va_block& block, std::uint32_t pages);

    // managed_calls.cpp
    void prefetch_to_gpu(std::uint32_t block, const page_mask& pages, work& done);
    void prefetch_to_cpu(std::uint32_t block, const page_mask& pages, work& done);

    // managed_validate.cpp
    [[nodiscard]] absl::Status validate_pages(const va_block& block) const;
    [[nodiscard]] absl::Status validate_memory(std::uint32_t index) const;
    [[nodiscard]] absl::Status validate_chunks() const;

    std::uint64_t bytes_;                          ///< size of the space
    host_access host_;                             ///< whether pages on the host are mapped at once
    std::vector<page_states> states_;              ///< 8 a segment
    std::vector<std::uint64_t> touched_;           ///< as a word of `states_`: pages already counted as accessed
    std::vector<va_block> blocks_;                 ///< block i < segments is the first of segment i
    std::vector<std::vector<chunk_index>> parts_;  ///< for truncated blocks: the chunk of each region
    chunk_list chunks_;                            ///< the order of eviction
    std::vector<chunk_content> contents_;          ///< indexed by chunk
    std::vector<chunk_index> shared_;              ///< chunks of truncated blocks
    std::uint64_t active_ = 0;                     ///< blocks with a page on the GPU
    std::uint64_t peak_active_ = 0;                ///< the most of them at any time
    result counts_;                                ///< since the last `close`
    event_log* log_ = nullptr;                     ///< where events go; null: nowhere
};

}  // namespace orchard::uvm_model
