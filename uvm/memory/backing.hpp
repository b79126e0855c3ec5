// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The sources of a heap's memory. docs/backings.md compares them.
///
///                   memory of the super chunk                               commit, decommit
///     elastic       addresses; physical memory mapped extent by extent      map and unmap
///     fixed         one cudaMalloc, or memory of the caller                 nothing to do
///     managed       one cudaMallocManaged                                   move to the GPU, discard the contents
///     emulated      one mmap of the host                                    make accessible, inaccessible

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "uvm/geometry/failure_reason.hpp"
#include "uvm/geometry/geometry.hpp"
#include "uvm/geometry/managed_advice.hpp"
#include "uvm/memory/managed_memory.hpp"
#include "uvm/memory/memory_driver.hpp"

namespace orchard {

/// The result of a commit. The reason is not part of the status, because the growth thread hands it on to requests as a
/// `failure_reason`, while the status is text for the user.
struct [[nodiscard]] commit_outcome {
    absl::Status status;
    memory_tier tier = memory_tier::device;     ///< if it succeeded: the tier of the memory
    failure_reason why = failure_reason::none;  ///< if it failed: the budget that is spent, or `commit_failed`

    [[nodiscard]] bool ok() const { return status.ok(); }
};

/// The memory that a backing has taken from the machine, and its limits. The numbers are read one by one while other
/// threads commit, so that they need not be of the same moment.
struct memory_use {
    std::uint64_t device_bytes = 0;  ///< committed bytes of the device's memory
    std::uint64_t host_bytes = 0;    ///< committed bytes of the spill tier
    std::uint64_t metadata_bytes = 0;
    std::uint64_t device_budget = 0;  ///< limit of `device_bytes`
    std::uint64_t host_budget = 0;
    std::uint64_t spare_bytes = 0;      ///< memory kept for moves between the tiers, not part of the others
    std::uint64_t moved_to_device = 0;  ///< bytes that `backing::move` has moved so far
    std::uint64_t moved_to_host = 0;
};

/// Committed memory that moves between the tiers as a whole.
struct movable_memory {
    segment_run run;
    memory_tier tier = memory_tier::device;
    std::uint64_t number = 0;  ///< the memory that was committed later has the greater number
};

/// An order to a backing: the movable memory that begins at a segment shall be in a tier.
struct move_order {
    segment_index first{};
    memory_tier to = memory_tier::device;
};

/// Owns one super chunk and its metadata. Its destruction releases all memory that it handed out, so that it comes
/// after the end of every thread and kernel that uses the heap.
///
/// Threads: one thread (after creation the growth thread) calls `commit`, `decommit` and `commit_metadata`. Any thread
/// may call `use` at any time, and `read` and `write` also while others do: the thread that reports failures and
/// threads that allocate on the host call them beside the application's thread. Any thread may call each other
/// function, one at a time.
class backing {
public:
    backing() = default;
    backing(const backing&) = delete;
    backing& operator=(const backing&) = delete;
    virtual ~backing() = default;

    /// Returns the first byte of the super chunk, aligned to a segment, as a device address.
    [[nodiscard]] virtual char* base() const = 0;
    /// Returns the number of segments of the super chunk.
    [[nodiscard]] virtual std::uint32_t segments() const = 0;
    /// Returns how many of them a heap uses: at most one less than the largest count that a request of the mailbox can
    /// hold, so that a request for the whole heap fits.
    [[nodiscard]] std::uint32_t usable_segments() const { return std::min(segments(), max_segments - 1); }
    /// Returns the number n of segments that are committed from the start: [0, n).
    [[nodiscard]] virtual std::uint32_t committed_at_start() const = 0;

    /// Commits physical memory for a run of segments, none of which is committed. May be slow, and may be held up by
    /// other CUDA calls of the process (`growth::is_blocked`). Errors: the system's own text, with the size;
    /// ResourceExhausted if memory is short, in which case a smaller run may succeed. Nothing is committed after an
    /// error.
    virtual commit_outcome commit(segment_run run) = 0;
    /// Returns true if `decommit` releases memory. Constant while the backing lives.
    [[nodiscard]] virtual bool can_decommit() const { return false; }
    /// Releases the physical memory of a run, which must be one that a single call committed (unless
    /// `decommits_at_once` or `takes_advice`); it must not be in use.
    /// The addresses remain the backing's, and may be committed again. May be slow. Errors: FailedPrecondition if no
    /// single call committed this run, or if the backing cannot decommit; the run is still committed after an error.
    virtual absl::Status decommit(segment_run run);
    /// Returns true if unused memory should be decommitted at once, because the driver would otherwise move its
    /// contents for nothing. `decommit` then takes any run of committed segments, whichever calls committed them.
    [[nodiscard]] virtual bool decommits_at_once() const { return false; }
    /// Returns true while memory that was committed is still on its way to where `commit` puts it. It may be used
    /// meanwhile, which takes longer. Any thread may call it. Never waits.
    [[nodiscard]] virtual bool is_moving() const { return false; }
    /// Moves committed memory to `to`, and waits for completion. Errors: FailedPrecondition if memory of this backing
    /// does not move; the driver's own.
    virtual absl::Status prefetch(void* at, std::size_t bytes, memory_tier to);
    /// Advises the UVM driver about committed memory, once this has moved to where `commit` puts it. Errors: as
    /// `prefetch`.
    virtual absl::Status advise(void* at, std::size_t bytes, managed_advice what);

    /// Returns true if segments may have advice of their own. Constant while the backing lives.
    [[nodiscard]] virtual bool takes_advice() const { return false; }
    /// Advises the UVM driver about committed segments that have no owner yet, in place of the backing's own advice;
    /// `decommit` of them gives that again. Called by the thread that commits. Never waits for a move. Errors:
    /// FailedPrecondition if the backing takes no advice, or if a segment is not committed; the driver's own.
    virtual absl::Status advise_segments(segment_run run, advice_code advice);

    /// Returns true if `move` moves memory between the tiers.
    [[nodiscard]] virtual bool can_move() const { return false; }
    /// Returns all memory that can move, in the order of addresses; nothing if none can. Any thread, at any time.
    [[nodiscard]] virtual std::vector<movable_memory> movable() const { return {}; }
    /// Waits for the application's stream (`memory_driver::finish_stream`). Errors: FailedPrecondition if nothing
    /// moves.
    virtual absl::Status finish_stream(void* stream);
    /// Carries out the orders, one after the other; those for memory that is not there any more, or has its tier, are
    /// passed over. Nothing may use the memory meanwhile. Addresses and contents stay the same. Any thread, also beside
    /// commits and decommits, which never wait for a copy. Errors: FailedPrecondition if nothing moves; those of
    /// `detail::tier_mover::move`.
    virtual absl::Status move(const std::vector<move_order>& orders);
    /// Sets the limit of user memory on the device, from now on; what is committed beyond it stays. Any thread. Errors:
    /// FailedPrecondition if this backing has all its memory from the start, or asks the driver for it.
    virtual absl::Status limit_device(std::uint64_t bytes);
    /// Gives memory back that is kept for later moves. Any thread.
    virtual void give_up_spares() {}

    /// Returns the free bytes of the device's memory, which all processes share; the largest number if that is not
    /// known. Called by the thread that commits, which takes no more than a part of it ahead of demand. Cost: a call of
    /// the driver, about 50 us.
    virtual std::uint64_t free_device_bytes() { return ~std::uint64_t{0}; }
    /// Returns the memory taken from the machine. Any thread, at any time.
    [[nodiscard]] virtual memory_use use() const = 0;
    /// Returns the known problems on this machine: one line each, with the remedy.
    [[nodiscard]] virtual std::vector<std::string> warnings() const { return {}; }

    /// Returns device memory for metadata: zero-filled, aligned to 256 B; freed with the backing. Called while a heap
    /// is being created, since clearing may have to wait for running kernels. Errors: ResourceExhausted with the size.
    virtual absl::StatusOr<void*> allocate_metadata(std::size_t bytes) = 0;
    /// Returns addresses for metadata of which a part suffices for long: as `allocate_metadata`, but no access is
    /// allowed before `commit_metadata`. After it the content is arbitrary unless `zeroes_all`: to clear it would take
    /// a copy or a kernel, which could wait for the very kernel that waits for the memory. The default, for backings
    /// that commit everything at once, allocates it.
    virtual absl::StatusOr<void*> reserve_metadata(std::size_t bytes) { return allocate_metadata(bytes); }
    /// Returns true if metadata from `reserve_metadata` is zero once it is committed. If not, the device clears a part
    /// of it before the first use (`heap_view::clears_metadata`).
    [[nodiscard]] virtual bool zeroes_all() const { return true; }
    /// Returns true if the metadata at a reserved address is committed. The host asks before it copies metadata of
    /// segments that may never have been committed. Any thread.
    [[nodiscard]] virtual bool has_metadata(const void* /*at*/) { return true; }
    /// Commits the reserved bytes [at, at + bytes), except those that are already committed. They remain committed,
    /// also after the decommit of the segments that they describe: device threads may still read the metadata of a
    /// segment that they have lost. `read` returns zeros for memory that is not committed.
    virtual absl::Status commit_metadata(void* /*at*/, std::size_t /*bytes*/) { return absl::OkStatus(); }
    /// Returns memory that host and device read and write while kernels run: zero-filled, aligned to 4 KiB; freed with
    /// the backing. The mailbox's rings and the records of failures lie there.
    virtual absl::StatusOr<void*> allocate_host_visible(std::size_t bytes) = 0;

    /// Returns the stream (a `cudaStream_t`) for work that must not wait for the application's, such as the kernels of
    /// `heap::trim`; null on the emulated device.
    [[nodiscard]] virtual void* stream() const = 0;

    /// Copies from device memory while kernels may run. Returns when the bytes are there. The words of a copy are those
    /// of some time between call and return, each by itself: kernels may change them meanwhile. Cost on CUDA: a copy on
    /// a stream of the backing's own.
    virtual absl::Status read(void* to, const void* from, std::size_t bytes) = 0;
    /// Writes up to 1 MiB to device memory while kernels may run (on CUDA `cuda_memory::staging_bytes`). Returns when
    /// the bytes are there, so that of two calls, the first one's bytes are visible first.
    virtual absl::Status write(void* to, const void* from, std::size_t bytes) = 0;
};

/// Returns a backing of ordinary memory for the emulated device. It reserves `capacity` bytes (rounded down to
/// segments) without physical memory. Committing makes a run accessible, so an access to uncommitted memory faults.
/// Errors: ResourceExhausted if the address space is too small.
absl::StatusOr<std::unique_ptr<backing>> make_emulated_backing(std::uint64_t capacity);

/// Returns a backing of one `cudaMalloc` of `capacity` bytes (rounded down to segments) on the calling thread's current
/// GPU; all of it is committed from the start. The mailbox's host part is pinned memory. Errors: ResourceExhausted with
/// the free bytes; FailedPrecondition in a build without CUDA; the runtime's own.
absl::StatusOr<std::unique_ptr<backing>> make_cuda_backing(std::uint64_t capacity);

/// Returns a backing of the whole segments in memory that the caller supplies: device memory, or other memory that
/// kernels can access. The memory must outlive the backing, which does not free it. Metadata and the mailbox use memory
/// from `driver`. Errors: InvalidArgument if the memory contains no whole segment.
absl::StatusOr<std::unique_ptr<backing>> make_fixed_backing(std::unique_ptr<memory_driver> driver, void* memory,
                                                            std::uint64_t bytes);

/// Sizes of an elastic backing, in bytes.
struct elastic_shape {
    std::uint64_t range = 0;          ///< size of the super chunk, rounded down to segments; addresses only
    std::uint64_t device_budget = 0;  ///< limit of user memory on the device
    std::uint64_t host_budget = 0;    ///< limit of user memory on the host, which is used once the device budget is
                                      ///< spent
    std::uint64_t move_unit = 0;      ///< most bytes that move as a whole, a multiple of a segment; 0: nothing moves
    bool checks_moves = false;        ///< memory has no addresses while it moves, so that a use of it faults
};

/// Returns a backing with addresses for `shape.range` bytes, for which `driver` commits memory extent by extent. Memory
/// is on the device while its budget and the device allow it, and otherwise on the host. At first only metadata is
/// committed. Errors: InvalidArgument for a range of more than `max_segments` segments or of less than one; the
/// driver's own.
absl::StatusOr<std::unique_ptr<backing>> make_elastic_backing(std::unique_ptr<memory_driver> driver,
                                                              const elastic_shape& shape);

/// The parameters of a managed backing.
struct managed_shape {
    std::uint64_t bytes = 0;  ///< size, rounded down to segments
    managed_advice advice = managed_advice::first_touch_gpu;
    /// Move segments to the GPU on commit, as long as at most nine tenths of the memory that the device had free at
    /// creation are committed. Ignored if memory stays on the host.
    bool prefetch = true;
    bool discard = true;                  ///< discard contents on decommit, if oversubscription is allowed
    bool allow_oversubscription = false;  ///< allow more than nine tenths of the device's free memory
};

/// Returns a backing of memory that the UVM driver moves. Metadata and the mailbox use memory from `driver`, which does
/// not move. Errors: InvalidArgument for less than a segment; ResourceExhausted, with the numbers, for more than
/// nine tenths of the device's free memory unless `allow_oversubscription`; those of `driver` and `memory`.
absl::StatusOr<std::unique_ptr<backing>> make_managed_backing(std::unique_ptr<memory_driver> driver,
                                                              std::unique_ptr<managed_memory> memory,
                                                              const managed_shape& shape);

}  // namespace orchard
