// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

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
#include "runtime/heap/failure.hpp"
#include "runtime/heap/launch_status.hpp"
#include "runtime/options/options.hpp"
#include "runtime/statistics/chunk_usage.hpp"
#include "runtime/statistics/statistics.hpp"
#include "uvm/memory/memory_driver.hpp"

namespace orchard {

struct published_settings;

/// A heap for kernels: owns the memory, the mailbox, the service and growth threads. Move-only.
///
/// Create one, pass `ref()` to kernels, destroy it when no kernel uses it any more. Several may live in one process.
/// All functions may be called from any thread, one call at a time.
class heap {
public:
    /// Makes a heap as `values` say; on CUDA, of the GPU that is the calling thread's current one. Kernels of the
    /// library are loaded before any thread of it starts.
    ///
    /// Errors: those of `validate(options)`; FailedPrecondition where the device is not there; ResourceExhausted with
    /// the numbers where memory is short. Cost: addresses, and metadata for what is committed: 0.93 % of it.
    static absl::StatusOr<heap> create(const options& values);

    /// The same in memory that the caller supplies: `bytes` at `memory`, of which the segments (2 MiB, aligned so) that
    /// lie in it whole are used. Device memory, or other memory that kernels of this device reach, such as pinned
    /// memory of the host at its device address; on the emulated device ordinary memory. It must outlive the heap, and
    /// stays the caller's. `backing`, `capacity` and `range` are not asked for.
    ///
    /// Errors: as `create`; InvalidArgument where there is no whole segment. Cost: metadata of 0.93 % of the memory,
    /// which comes from the device's.
    static absl::StatusOr<heap> create_in(void* memory, std::uint64_t bytes, const options& values);

    heap(heap&&) noexcept;
    heap& operator=(heap&&) noexcept;
    /// Ends the heap's threads and gives its memory back. No kernel may use the heap any more.
    ~heap();

    /// The view for kernels; valid while this object (or what it was moved to) lives. Of a heap that was created for a
    /// published algorithm (runtime/heap/published_heap.hpp) this is a view that refuses every request (null), as if
    /// the heap were being closed.
    [[nodiscard]] heap_ref ref() const;

    /// What the library's own kernels work on, and allocators of their own over this heap's segments.
    [[nodiscard]] const device::heap_view& view() const;

    /// Where this heap's kernels run, and on which GPU: to be passed to `simt::launch`.
    [[nodiscard]] const simt::executor& executor() const;

    /// The options that the heap was made with.
    [[nodiscard]] const options& configuration() const;

    /// Returns true if CUDA loads all kernels when the program starts (`CUDA_MODULE_LOADING=EAGER`); otherwise each is
    /// loaded at its first launch, or by `preload`. True on the emulated device.
    [[nodiscard]] bool loads_kernels_eagerly() const;

    /// Returns what will not work as expected with this heap on this machine: one line each, with the remedy; empty
    /// where all is well. For the program to print once; the library prints nothing. Waits for no kernel.
    [[nodiscard]] std::vector<std::string> warnings() const;

    /// Numbers so far. Exact when no kernel runs and nothing is under way in the mailbox, as after `validate` or
    /// `trim`. Errors: the device's own.
    /// Cost: a copy of 0.6 MiB, and the bitmaps of slabs in use: pages are counted there, class by class, not when
    /// they are allocated and freed.
    absl::StatusOr<statistics> stats();

    /// What the warp chunks of large blocks and of interleaved arrays hold, and how much of that is in use. Exact when
    /// no kernel runs. Errors: the device's own. Cost: a copy of the records of chunks.
    absl::StatusOr<chunk_usage> chunks();

    /// Checks every structure of the heap against the others: each granted segment has one owner, bitmaps and tables
    /// agree, nothing is lost in the mailbox. No kernel may run. Errors: Internal with the first fault found.
    /// Cost: a copy of all metadata.
    absl::Status validate();

    /// Gives back what lies unused: slabs without a page in use and the segment cache go to the host, and of an elastic
    /// heap every extent of which nothing is in use then goes to the machine. Runs a kernel; others may run beside it,
    /// and take up again what it finds. Errors: DeadlineExceeded where posts stay unanswered or memory is not given
    /// back in time; the device's own.
    absl::Status trim();

    /// Has `bytes` of memory committed now, those that are committed already included, so that kernels which need them
    /// do not wait. Kernels may run. Errors: ResourceExhausted for more than the budgets; DeadlineExceeded after
    /// `request_timeout`; the system's own. Cost: on a GPU about 0.1 ms for 1 GiB.
    absl::Status reserve(std::uint64_t bytes);

    /// A block of at least `bytes` for the host to hand to kernels, at a multiple of 256 B; null for 0. Kernels may
    /// run, also such as fill the GPU: nothing is launched. Any thread may free it, of the device or of the host.
    ///
    /// It is an address of the device. What the host may do with it: docs/backings.md.
    ///
    /// Errors: InvalidArgument for more than one service's share; ResourceExhausted with the numbers where there is no
    /// such piece; FailedPrecondition where a published algorithm serves the heap; the device's own. From several
    /// threads at once. Cost: every 32nd block, or fewer of 64 KiB and more, a turn of the service and five small
    /// copies, some 50 us; a block takes at least 2 KiB.
    absl::StatusOr<void*> allocate_on_host(std::uint64_t bytes);

    /// Frees a block of this heap, allocated by the host or by a device thread; nothing for null. Kernels may run: it
    /// is queued, and device threads free it when they next ask for a large block, for a segment of pages, or are short
    /// of memory; so do `trim`, `validate`. What is no block is counted (`statistics::invalid_frees`).
    ///
    /// Errors: InvalidArgument for an address outside the heap; FailedPrecondition where a published
    /// algorithm serves the heap; the device's own. From several threads at once. Cost: two small copies, some 20 us.
    absl::Status free_on_host(void* p);

    /// Moves `bytes` of a managed heap's memory at `at` to the GPU or to the host, and waits for it. Kernels may run.
    /// Errors: OutOfRange for what does not lie in the heap; FailedPrecondition where the backing is not managed; the
    /// driver's. Cost: as a copy of what is not there yet.
    absl::Status prefetch(void* at, std::uint64_t bytes, memory_tier to);

    /// Returns the newest request that failed, with its reason; nothing if none did. If several requests fail at the
    /// same time, one of them is recorded; all of them are counted. Kernels may run.
    ///
    /// The numbers of memory (`failure::now`) are of the heap when this is called, not when the request failed. They do
    /// not depend on a service that answers: after a second without one they are what it said last
    /// (`memory_levels::is_late`). Cost: a copy of 0.2 KiB, and up to 1 ms until an idle service looks.
    std::optional<failure> last_failure();

    /// As `last_failure`, the first of all that failed.
    std::optional<failure> first_failure();

    /// As `last_failure`, the newest of each reason that any failed for, in the order of the enumeration.
    std::vector<failure> failures();

    /// Has `report` called with what `failures` says, for each reason apart: soon after the first request has failed
    /// for it, and while more of them fail once a second, each time with the newest one that was not reported before.
    /// What had failed before this call is reported too. Called in a thread of the heap's, also while a service does
    /// not answer; it may take its time and use the heap, but neither destroy it nor call this. A later call takes the
    /// place of an earlier one; an empty function ends it. Cost: a look at memory of the host every 5 ms.
    void on_failure(std::function<void(const failure&)> report);

    /// The address of the first free of what was not allocated (from nowhere, twice, from the middle of a block, of
    /// another heap); 0 while there was none. How many there were: `statistics::invalid_frees`.
    [[nodiscard]] std::uintptr_t first_invalid_free();

    /// From now on requests are answered with null and reason `closing`, also those that wait; frees are taken.
    /// Kernels may run. Closing twice is fine. Errors: the device's own.
    absl::Status close();

    /// Loads kernels that are function objects (those of `simt::launch`) now. On CUDA the first launch of a kernel that
    /// is not loaded may wait until all running kernels have ended: call this, while none runs, for kernels that have
    /// to run beside others (docs/programs.md). Nothing to do on the emulated device. Errors: the runtime's own.
    template <class... Kernels>
    absl::Status preload() {
        absl::Status status;
        ((status.Update(to_status(simt::preload<Kernels>(executor())))), ...);
        return status;
    }

    /// The same for ordinary `__global__` functions of any signature: `heap.preload(fill, sum<float>)`.
    ///
    /// Errors name the place of the kernel in the list, and the kernels behind it are not loaded: FailedPrecondition
    /// for what is no kernel of the CUDA runtime that Orchard is linked with, or has no code for this GPU; the
    /// runtime's own.
    template <class Kernel, class... Kernels>
    absl::Status preload(Kernel* kernel, Kernels*... kernels) {
        static_assert(std::is_function_v<Kernel> && (std::is_function_v<Kernels> && ...), "give __global__ functions");
        const void* const all[] = {reinterpret_cast<const void*>(kernel), reinterpret_cast<const void*>(kernels)...};
        return load(all);
    }

private:
    friend struct heap_service_peer;
    friend struct published_heaps;
    class impl;
    static absl::StatusOr<heap> make(const options& values, void* memory, std::uint64_t bytes,
                                     const published_settings& walk);
    explicit heap(std::unique_ptr<impl> i);
    absl::Status load(std::span<const void* const> kernels);

    std::unique_ptr<impl> impl_;
};

}  // namespace orchard
