// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A heap, as the host sees it: creation, growth, statistics, failures, checks. Kernels use the `heap_ref` that
/// `heap::ref` returns.
///
///     auto made = orchard::heap::create(options);                        // absl::StatusOr<heap>
///     my_kernel<<<blocks, threads>>>(made->ref());                       // malloc and free in the kernel
///     auto counters = made->stats();                                     // any time, also beside kernels
///     ...                                                                // no kernel uses it any more: destroy it

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/heap_ref.cuh"
#include "device/simt/launch.cuh"
#include "runtime/heap/block_fault.hpp"
#include "runtime/heap/chunk_usage.hpp"
#include "runtime/heap/failure.hpp"
#include "runtime/heap/heap_map.hpp"
#include "runtime/heap/held_block.hpp"
#include "runtime/heap/launch_status.hpp"
#include "runtime/machine/machine_info.hpp"
#include "runtime/options/options.hpp"
#include "runtime/statistics/statistics.hpp"
#include "runtime/trace/site_names.hpp"
#include "runtime/trace/site_table.hpp"
#include "uvm/memory/memory_driver.hpp"

namespace orchard {

struct published_settings;

/// The bytes that a call of `heap::migrate` has moved.
struct migration {
    std::uint64_t to_device_bytes = 0;
    std::uint64_t to_host_bytes = 0;
};

/// A heap for kernels: owns the memory, the mailbox, the service and growth threads. Move-only.
///
/// Create a heap, pass `ref()` to kernels, and destroy the heap when no kernel uses it any more. Several heaps may live
/// in one process. All functions may be called from any thread, but by one thread at a time.
class heap {
public:
    /// Returns a heap with the options `values`; on CUDA, a heap of the calling thread's current GPU. The library's
    /// kernels are loaded before the heap starts any thread.
    ///
    /// Errors: those of `validate(options)`; FailedPrecondition if the device is not available; ResourceExhausted, with
    /// the numbers, if memory is short. Cost: virtual addresses, and metadata of 0.93 % of the committed memory.
    static absl::StatusOr<heap> create(const options& values);

    /// Returns a heap in memory that the caller supplies: `bytes` bytes at `memory`. The heap uses the segments (2 MiB,
    /// aligned to 2 MiB) that lie entirely in it. On CUDA the memory is device memory, or other memory that kernels of
    /// this device can access, such as pinned host memory at its device address. On the emulated device it is ordinary
    /// memory. It must outlive the heap and remains the caller's. The options `backing`, `capacity` and `range` are
    /// ignored.
    ///
    /// Errors: those of `create`; InvalidArgument if the memory contains no whole segment. Cost: metadata of 0.93 % of
    /// the memory, taken from the device's memory.
    static absl::StatusOr<heap> create_in(void* memory, std::uint64_t bytes, const options& values);

    heap(heap&&) noexcept;
    heap& operator=(heap&&) noexcept;
    /// Ends the heap's threads and releases its memory. No kernel may use the heap any more. In a process that was
    /// forked from the heap's, it does nothing.
    ~heap();

    /// Returns the view for kernels; valid as long as this object, or the object that it was moved to, lives. For a
    /// heap that was created for a published algorithm (runtime/heap/published_heap.hpp), the view fails every
    /// request with null, as if the heap were closing.
    [[nodiscard]] heap_ref ref() const;

    /// Returns the view that the library's own kernels use, and that user-defined allocators over this heap's segments
    /// use.
    [[nodiscard]] const device::heap_view& view() const;

    /// Returns the device on which this heap's kernels run, and why: `device_choice::kind`, `reason` and `gpu`. With
    /// the option `device` automatic, the default, that is the emulated device if there is no usable GPU. A kernel that
    /// is launched by `<<<>>>` can only use a heap of the kind `cuda`.
    [[nodiscard]] const device_choice& device() const;

    /// Returns the device, and the GPU, on which this heap's kernels run; pass it to `simt::launch`.
    [[nodiscard]] const simt::executor& executor() const;

    /// Returns the options of the heap, with the values that the heap chose.
    [[nodiscard]] const options& configuration() const;

    /// Returns true if CUDA loads all kernels when the program starts (`CUDA_MODULE_LOADING=EAGER`); otherwise each
    /// kernel is loaded at its first launch, or by `preload`. Returns true on the emulated device.
    [[nodiscard]] bool loads_kernels_eagerly() const;

    /// Returns the known problems of this heap on this machine: one line each, with the remedy; empty if there are
    /// none. The program should print them once; the library prints nothing. Waits for no kernel.
    [[nodiscard]] std::vector<std::string> warnings() const;

    /// Returns the heap's counters. They are exact if no kernel runs and no request is outstanding in the mailbox, as
    /// after `validate` or `trim`. Errors: the device's own. Cost: copies 0.6 MiB and the bitmaps of the slabs in use.
    /// The pages of each class are counted in these bitmaps, because allocation and free do not count them.
    absl::StatusOr<statistics> stats();

    /// Returns how much memory the warp chunks of large blocks and of interleaved arrays hold, and how much of it is in
    /// use. Exact if no kernel runs. Errors: the device's own. Cost: copies the records of chunks.
    absl::StatusOr<chunk_usage> chunks();

    /// Returns what each segment is used for now, with the heap's statistics: `heap_map`. Exact if no kernel runs;
    /// beside kernels the parts of the map are of different moments, and `heap_map::is_exact` is mostly false. Changes
    /// nothing, and launches nothing. Errors: DeadlineExceeded if the service does not turn to it within
    /// `request_timeout`; the device's own. Cost: that of `stats`, of `chunks`, and a look at each segment on the
    /// service's thread (about 2 ns).
    absl::StatusOr<heap_map> map();

    /// Writes `map` as JSON to the file `path`, which `orchard map --dump` draws (docs/map.md). The file gets the mode
    /// 0600; a regular file is replaced when the new one is complete, and stays as it is after an error. Errors: as
    /// `map`; InvalidArgument with the path and the system's text. Cost: as `map`, and about 20 bytes for each run of
    /// segments.
    absl::Status dump(const std::string& path);

    /// Checks all structures of the heap against each other: each segment that was handed out has one owner, bitmaps
    /// and tables agree, and the mailbox has lost nothing. No kernel may run.
    /// @param held  blocks that the program has allocated and not freed, some or all of them. Each is compared with the
    ///     structures: it is allocated there, is as large as was asked for, and shares no byte with another.
    /// Errors: Internal with the first fault found; InvalidArgument if `held` has a block of 0 bytes or one outside the
    /// heap; FailedPrecondition if `held` is not empty and a published algorithm serves the heap; DeadlineExceeded if
    /// the service does not turn to it within `request_timeout`. Cost: copies all metadata.
    absl::Status validate(std::span<const held_block> held = {});

    /// Releases unused memory: slabs without a page in use and the segment cache return to the host; an elastic heap
    /// then decommits every extent that is entirely unused. Launches a kernel. Other kernels may run at the same time,
    /// and may take the memory again. Errors: DeadlineExceeded if requests remain unanswered or memory is not released
    /// in time; the device's own.
    absl::Status trim();

    /// Tells a checker that listens to NVTX's memory functions which blocks are live, and returns their number; 0, at
    /// no cost, if none listens. From now on it reports each access of a kernel to memory of the heap that is in none
    /// of these blocks. `compute-sanitizer --nvtx=yes` thereby finds the use of a block that an earlier kernel has
    /// freed: call this after kernels that allocate or free, and before those that only use blocks (docs/nsight.md).
    /// A kernel that allocates would be reported for its new blocks: call `unmark_live_blocks` before it. In a hardened
    /// heap the quarantine is emptied.
    ///
    /// No kernel may use the heap meanwhile. Errors: FailedPrecondition if a published algorithm serves the heap, or if
    /// the tool refuses its memory, as compute-sanitizer does unless the heap's backing is fixed; DeadlineExceeded if
    /// kernels still wait for the service; the device's own. Cost, if a tool listens: copies the descriptors, the
    /// bitmaps of slabs and the records of chunks, and one region of the tool for each block.
    absl::StatusOr<std::uint64_t> mark_live_blocks();
    /// Ends this: kernels may access all memory of the heap again. Does nothing after no `mark_live_blocks`.
    void unmark_live_blocks();

    /// Commits memory until `bytes` are committed in total, so that kernels do not wait for commits. Kernels may run.
    /// Errors: ResourceExhausted if `bytes` exceed the budgets; DeadlineExceeded if a commit, or the service, takes
    /// longer than `request_timeout`; memory may then be committed later; the system's own. Cost: on a GPU about 0.1 ms
    /// for 1 GiB.
    absl::Status reserve(std::uint64_t bytes);

    /// Sets how much memory an elastic heap may commit on the device from now on, at most the option `capacity`. Memory
    /// without blocks is released first, if more is committed. Blocks stay where they are: the heap then commits on the
    /// host, if it has a budget there, until enough of them are freed, or moved by `demote`. Kernels may run; what they
    /// ask for beyond the budget is null, as ever. Errors: FailedPrecondition if the heap is not elastic; OutOfRange
    /// for less than a segment (2 MiB) or more than `capacity`; those of `trim`: the budget is set all the same.
    absl::Status set_device_budget(std::uint64_t bytes);

    /// Returns a block of at least `bytes` bytes that the host can pass to kernels, at a multiple of 256 B; null for 0
    /// bytes. Kernels may run, even kernels that fill the GPU, because nothing is launched. Any thread of the device or
    /// of the host may free the block.
    ///
    /// The result is a device address. docs/backings.md says how the host may use it.
    ///
    /// Errors: InvalidArgument if `bytes` exceed what the heap may commit in all; ResourceExhausted, with the
    /// numbers, if no such piece is free; FailedPrecondition if a published algorithm serves the heap, or if it was
    /// closed; DeadlineExceeded if a commit, or the service, takes longer than `request_timeout`; the device's own.
    /// Several threads may call this at the same time. Cost: one turn of the service and five small copies, about 50
    /// us, for every 32 blocks; for fewer blocks if they are 64 KiB or larger. A block occupies at least 2 KiB.
    absl::StatusOr<void*> allocate_on_host(std::uint64_t bytes);

    /// Frees a block of this heap that the host or a device thread allocated; does nothing for null. Kernels may run.
    /// The block is queued, and device threads free it when they next request a large block or a segment for a slab, or
    /// when memory is short. `trim` and `validate` also free it. An address that is no block is counted
    /// (`statistics::invalid_frees`).
    ///
    /// Errors: InvalidArgument for an address outside the heap; FailedPrecondition if a published algorithm serves the
    /// heap; the device's own. Several threads may call this at the same time. Cost: two small copies, about 20 us.
    absl::Status free_on_host(void* p);

    /// Moves memory of an elastic heap between the device and the host, so that what kernels use is on the device:
    /// first waits for the work queued on `stream` (a `cudaStream_t`; null: the default stream), then moves, and
    /// returns when all is done. From the call until it returns, nothing else may use the heap: neither its
    /// memory, by kernels of other streams or copies, nor its `malloc` and `free`, which could hand out a block that is
    /// being moved. Addresses and contents stay the same. The option `move_unit` says how much
    /// moves as a whole.
    ///
    /// The heap chooses what to move. Memory on the host changes places with memory on the device that was accessed
    /// less than half as often, by the samples of `heap_ref::note_access` and `sampled_array` since earlier calls,
    /// where the difference is beyond chance. A heap without any sample keeps its youngest memory on the device.
    ///
    /// Wrong use is found in the checked build and in hardened heaps: memory that moves has no addresses meanwhile, so
    /// that a kernel which uses it faults.
    ///
    /// Errors: FailedPrecondition if no memory of this heap moves; DeadlineExceeded if other kernels delay a copy for
    /// 10 s: the copy continues, and the next call gives it up; the driver's own. After an error each byte is in one of
    /// the two tiers, with its contents. Growth and requests never wait for a copy. Cost on an H200: docs/backings.md.
    absl::StatusOr<migration> migrate(void* stream = nullptr);

    /// Moves `bytes` bytes at `at` to the GPU or to the host, and waits for completion.
    ///
    /// Of an elastic heap, all memory that moves as a whole with a part of the range (option `move_unit`) is moved.
    /// Nothing may use that memory meanwhile, and no kernel may allocate from the heap; blocks in other memory may be
    /// in use. Of a managed heap kernels may use all of it.
    ///
    /// Errors: OutOfRange if the range is not inside the heap; FailedPrecondition if the memory of this heap does not
    /// move; ResourceExhausted, with the numbers, if the tier has no room for all of it, also after all memory without
    /// blocks was released: what was moved stays there; those of `migrate`. Cost: a copy of the memory that is not at
    /// the destination yet.
    absl::Status prefetch(void* at, std::uint64_t bytes, memory_tier to = memory_tier::device);
    /// The same as `prefetch` to the host.
    absl::Status demote(void* at, std::uint64_t bytes);

    /// Advises the UVM driver about `bytes` bytes of a managed heap's memory at `at`, in place of the option `advice`.
    /// The advice belongs to the addresses: it stays when a block there is freed, so that a program gives the option's
    /// again before. Pass whole VA blocks (2 MiB), or the driver divides those at the ends. Kernels may run. Errors: as
    /// `prefetch`. Cost: a few calls of the driver.
    absl::Status advise(void* at, std::uint64_t bytes, managed_advice what);

    /// Returns the newest request that failed, with its reason; nothing if none did. If several requests fail at the
    /// same time, one of them is recorded; all of them are counted. Kernels may run.
    ///
    /// The memory levels (`failure::now`) are those of the heap at the time of this call, not when the request failed.
    /// This call does not depend on a responsive service: after one second without an answer it uses the service's last
    /// report (`memory_levels::is_late`). In a process that was forked from the heap's, it returns nothing. Cost:
    /// copies 0.2 KiB, and waits up to 1 ms for an idle service.
    std::optional<failure> last_failure();

    /// Returns the first request that failed, otherwise as `last_failure`.
    std::optional<failure> first_failure();

    /// Returns the newest failure of each reason, in the order of the enumeration; otherwise as `last_failure`.
    std::vector<failure> failures();

    /// Registers `report`, which is called for each reason separately with the failure that `failures` returns. It is
    /// called soon after the first request fails for a reason, and then once a second while more requests fail, each
    /// time with the newest failure that was not reported before. Failures before this call are reported too.
    ///
    /// `report` runs in a thread of the heap, even while the service does not answer. It may take long and may use the
    /// heap, but may neither destroy it nor call `on_failure`. A later call replaces an earlier one; an empty function
    /// ends the reports. An exception that `report` throws is caught, and counted in the statistic
    /// `callback_exceptions`. Errors: ResourceExhausted if no thread can be started; then there are no reports. Cost: a
    /// read of host memory every 5 ms.
    absl::Status on_failure(std::function<void(const failure&)> report);

    /// Returns the address of the first invalid free: an address outside the heap, in the middle of a block or of
    /// another heap, or a block that was already free. Returns 0 if there was none. `statistics::invalid_frees` counts
    /// them.
    [[nodiscard]] std::uintptr_t first_invalid_free();

    /// Returns the first faults that a heap with the option `hardened` has found, oldest first, at most 16; nothing for
    /// another heap. The statistic `block_faults` counts all. Some faults are found when memory is used again, or in
    /// `trim` and `validate`. Kernels may run. Errors: none. Cost: reads 1 KiB of host memory.
    [[nodiscard]] std::vector<block_fault> block_faults() const;

    /// Closes the heap: from now on requests return null with reason `closing`, including requests that already wait.
    /// Frees still work. Kernels may run. Closing twice is allowed. Errors: the device's own.
    absl::Status close();

    /// Returns what the blocks of each tag take: bytes and blocks in use, peak, counts; the most bytes in use first.
    /// For heaps with the option `sites`. What kernels that have ended have done is counted. `leak_report` makes a text
    /// of it. Errors: FailedPrecondition without that option; DeadlineExceeded if the events of kernels are not all
    /// read within `request_timeout`.
    absl::StatusOr<std::vector<site_usage>> sites();

    /// Loads kernels that are function objects (those of `simt::launch`). On CUDA, the first launch of a kernel that is
    /// not loaded may wait until all running kernels have ended. Call this, while no kernel runs, for kernels that must
    /// run at the same time as others (docs/programs.md). Does nothing on the emulated device. Errors: the runtime's
    /// own.
    template <class... Kernels>
    absl::Status preload() {
        absl::Status status;
        ((status.Update(to_status(simt::preload<Kernels>(executor())))), ...);
        return status;
    }

    /// Loads ordinary `__global__` functions of any signature: `heap.preload(fill, sum<float>)`.
    ///
    /// Errors name the position of the kernel in the list; the kernels after it are not loaded. FailedPrecondition if
    /// the function is no kernel of the CUDA runtime that Orchard is linked with, or has no code for this GPU; the
    /// runtime's own.
    template <class Kernel, class... Kernels>
    absl::Status preload(Kernel* kernel, Kernels*... kernels) {
        static_assert(std::is_function_v<Kernel> && (std::is_function_v<Kernels> && ...), "give __global__ functions");
        const void* const all[] = {reinterpret_cast<const void*>(kernel), reinterpret_cast<const void*>(kernels)...};
        return load(all);
    }

private:
    /// Leaves the implementation alone in a process that was forked from the heap's (heap.cpp).
    void forget_if_forked() noexcept;

    friend struct heap_service_peer;
    friend struct published_heaps;
    /// The machinery: heap_impl.hpp.
    class impl;
    /// Checks that there is memory, then as `make`.
    static absl::StatusOr<heap> make_in(void* memory, std::uint64_t bytes, const options& values,
                                        const published_settings& walk);
    /// Checks the options, then creates the heap; `memory` is that of `create_in`, or null.
    static absl::StatusOr<heap> make(const options& values, void* memory, std::uint64_t bytes,
                                     const published_settings& walk);
    explicit heap(std::unique_ptr<impl> i);
    /// Implements `preload` for `__global__` functions (kernel_loading.cpp).
    absl::Status load(std::span<const void* const> kernels);

    std::unique_ptr<impl> impl_;
};

}  // namespace orchard
