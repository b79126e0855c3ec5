// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The memory driver of GPUs, and its stand-ins for a build without CUDA; memory_driver.hpp describes the functions.
///
///     make_cuda_driver
///       initialize
///         cuda_memory::initialize      streams
///         driver_calls::find_all       the driver's functions by name
///         find_granularity             unit of sizes; find_host_tier: is there a spill tier?
///         allocate_host_visible        staging memory, the first piece; is it shared with the host?
///
/// The memory of a heap then comes from two places:
///
///     create, map, ...         user memory and reserved metadata; the backing keeps the handles
///     pieces_ (mapped_pieces)  metadata of a fixed size, mailbox, staging memory; this object keeps them

#include "absl/strings/str_format.h"
#include "uvm/geometry/geometry.hpp"
#include "uvm/memory/memory_driver.hpp"

#if ORCHARD_HAS_CUDA

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "uvm/memory/cuda_calls.hpp"
#include "uvm/memory/cuda_memory.hpp"
#include "uvm/memory/ended_drivers.hpp"
#include "uvm/memory/mapped_pieces.hpp"

namespace orchard {
namespace {

// Returns an address as the driver's calls take it. Host and device share one range of addresses.
CUdeviceptr as_device(const char* at) { return reinterpret_cast<CUdeviceptr>(at); }

/// The driver of a heap on a GPU: CUDA's virtual-memory calls, and `cuda_memory` for streams and copies.
///
/// Every function makes the heap's GPU current for its calls and restores the caller's, since the thread may belong to
/// the application. The calls of a growing heap are `create`, `map`, `set_access`, `unmap` and `destroy`; none of them
/// uses a stream.
///
/// Two properties of a machine are found by trying (`initialize`), because attributes do not tell them:
///
///     has_host_tier_       the driver creates host memory that can be mapped into reserved addresses
///     host_shares_tier_    and lets the host read and write such a mapping: mailbox and staging memory can lie there.
///                          If not, they are from `cudaHostAlloc`, and `warnings` says so
///
/// Members are destroyed in reverse order, after the destructor's own steps: no copy is under way, and the pieces are
/// released, before `memory_` ends.
class cuda_driver final : public memory_driver {
public:
    // A late copy may still use the pieces, hence the order.
    ~cuda_driver() override {
        memory_.finish();
        pieces_.release();
    }
    /// Finds the functions and properties of the machine, and allocates the staging memory. Call it first. Errors:
    /// those of `make_cuda_driver`. After an error the object may only be given to `end_driver`, since a call may still
    /// be under way.
    absl::Status initialize(absl::Duration patience);

    [[nodiscard]] std::size_t granularity() const override { return granularity_; }
    [[nodiscard]] bool has_host_tier() const override { return has_host_tier_; }
    absl::StatusOr<amounts> device_memory() override {
        const detail::current_device here(memory_.device());
        return cuda_device_memory();
    }

    absl::StatusOr<char*> reserve(std::size_t bytes, std::size_t alignment) override;
    void unreserve(char* at, std::size_t bytes) override {
        const detail::current_device here(memory_.device());
        // The reservation began before the gap (`reserve`).
        calls_.unreserve(as_device(at - gap), bytes + 2 * gap);
    }
    absl::StatusOr<memory_handle> create(std::size_t bytes, memory_tier tier) override;
    void destroy(memory_handle memory, std::size_t bytes) override;
    absl::Status map(char* at, std::size_t bytes, memory_handle memory) override;
    absl::Status set_access(char* at, std::size_t bytes) override;
    absl::Status unmap(char* at, std::size_t bytes) override;

    // No `cudaMalloc`: `cudaFree` would wait for running kernels when the heap ends.
    absl::StatusOr<void*> allocate(std::size_t bytes) override { return pieces_.take(memory_tier::device, bytes); }
    absl::StatusOr<void*> allocate_host_visible(std::size_t bytes) override {
        return host_shares_tier_ ? pieces_.take(memory_tier::host, bytes) : memory_.allocate_host_visible(bytes);
    }
    // Copies and streams are those of `cuda_memory`; only they can be under way after a deadline.
    [[nodiscard]] bool is_idle() const override { return memory_.is_idle(); }
    [[nodiscard]] std::vector<std::string> warnings() const override {
        if (host_shares_tier_) {
            return {};
        }
        return {
            "the GPU's driver maps no host memory that both sides write, so that the mailbox is from cudaHostAlloc: "
            "destroying the heap waits until no kernel runs; destroy heaps while no kernel runs"};
    }
    [[nodiscard]] void* stream() const override { return memory_.stream(); }
    absl::Status read(void* to, const void* from, std::size_t n) override { return memory_.read(to, from, n); }
    absl::Status write(void* to, const void* from, std::size_t n) override { return memory_.write(to, from, n); }
    absl::Status begin_copies(int queue, std::vector<memory_copy> copies) override {
        return memory_.begin_copies(queue, std::move(copies));
    }
    absl::Status finish_copies(int queue) override { return memory_.finish_copies(queue); }
    absl::Status finish_stream(void* stream) override { return memory_.finish_stream(stream); }

private:
    /// Addresses on either side of a reservation that never get memory. `granularity` divides it.
    static constexpr std::size_t gap = segment_bytes;

    /// Returns where memory of a tier lies: on the GPU, or on the host's NUMA node next to it.
    [[nodiscard]] CUmemLocation location(memory_tier tier) const {
        CUmemLocation where{};
        // Memory on the node next to the GPU is reached over the bus without a detour through another processor.
        where.type = tier == memory_tier::device ? CU_MEM_LOCATION_TYPE_DEVICE : CU_MEM_LOCATION_TYPE_HOST_NUMA;
        where.id = tier == memory_tier::device ? memory_.device() : host_node_;
        return where;
    }
    /// Returns the properties with which memory of a tier is created.
    [[nodiscard]] CUmemAllocationProp properties(memory_tier tier) const {
        CUmemAllocationProp result{};
        // Pinned: the pages stay where they were created.
        result.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        result.location = location(tier);
        return result;
    }
    /// Lets the GPU (`device`) or the host (`host`) read and write mapped memory.
    [[nodiscard]] CUresult give_access(char* at, std::size_t bytes, memory_tier to) const {
        // CUDA keeps the access of each location by itself: access for the host does not end that of the GPU.
        CUmemAccessDesc access{};
        access.location = location(to);
        access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        return calls_.set_access(as_device(at), bytes, &access, 1);
    }
    // Steps of `initialize`, and the preparation of pieces; described at their definitions.
    absl::Status prepare(char* at, std::size_t bytes, memory_tier tier);
    absl::Status find_granularity(CUdevice device);
    [[nodiscard]] bool find_host_tier(CUdevice device, std::size_t* granularity);

    // The members that `initialize` sets are constant afterwards, so that any thread may read them.
    detail::cuda_memory memory_;
    detail::driver_calls calls_;
    std::size_t granularity_ = 0;
    bool has_host_tier_ = false;
    bool host_shares_tier_ = false;  ///< the host may read and write memory of the host tier
    int host_node_ = 0;

    // Its functions call those of this object, which are complete by then: nothing is taken before `initialize`.
    detail::mapped_pieces pieces_{
        *this, [this](char* at, std::size_t bytes, memory_tier tier) { return prepare(at, bytes, tier); }};
};

/// Streams come first: their creation may be held up by running kernels, and ends at `patience`. The attribute tells
/// whether the GPU and its driver map memory at all. If not, the error is FailedPrecondition, after which the option
/// `automatic` takes the fixed backing (`make_backing`).
absl::Status cuda_driver::initialize(absl::Duration patience) {
    if (auto s = memory_.initialize(patience); !s.ok()) {
        return s;
    }
    if (auto s = calls_.find_all(); !s.ok()) {
        return s;
    }
    CUdevice device{};
    if (auto s = calls_.check(calls_.device_get(&device, memory_.device()), "cuDeviceGet"); !s.ok()) {
        return s;
    }
    int supported = 0;
    calls_.attribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device);
    if (supported == 0) {
        return absl::FailedPreconditionError(
            absl::StrFormat("GPU %d cannot map memory into reserved addresses (virtual memory management)", device));
    }
    if (auto s = find_granularity(device); !s.ok()) {
        return s;
    }
    // The staging memory is the first piece on the host. If the host cannot be given access to it, all memory that host
    // and device share comes from `cudaHostAlloc` from now on.
    host_shares_tier_ = has_host_tier_;
    // The first attempt is a piece of the host tier. Its preparation gives the host access, which not every driver
    // allows.
    auto staging = allocate_host_visible(detail::cuda_memory::staging_bytes);
    if (!staging.ok() && host_shares_tier_) {
        host_shares_tier_ = false;
        staging = allocate_host_visible(detail::cuda_memory::staging_bytes);
    }
    if (!staging.ok()) {
        return staging.status();
    }
    // From here on `read` and `write` work.
    memory_.set_staging(*staging);
    return absl::OkStatus();
}

/// Prepares memory for `allocate` and `allocate_host_visible`, which lives as long as this object: clears it. Device
/// memory is cleared on a stream, within the deadline. Host memory is cleared by this thread, which needs access first.
absl::Status cuda_driver::prepare(char* at, std::size_t bytes, memory_tier tier) {
    if (tier == memory_tier::device) {
        return memory_.zero(at, bytes);
    }
    const detail::current_device here(memory_.device());
    // The GPU has access already (`mapped_pieces::add_piece`).
    const CUresult result = give_access(at, bytes, tier);
    if (auto s = calls_.check(result, "cuMemSetAccess for the host", bytes); !s.ok()) {
        return s;
    }
    std::memset(at, 0, bytes);
    return absl::OkStatus();
}

/// Finds the unit of sizes and addresses, and whether there is a host tier. Errors: FailedPrecondition if a segment is
/// not a multiple of the unit of either tier; then no extent could be mapped exactly.
absl::Status cuda_driver::find_granularity(CUdevice device) {
    const CUmemAllocationProp wanted = properties(memory_tier::device);
    if (auto s = calls_.check(calls_.granularity(&granularity_, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                              "cuMemGetAllocationGranularity");
        !s.ok()) {
        return s;
    }
    std::size_t on_host = 1;
    has_host_tier_ = find_host_tier(device, &on_host);
    // Without a host tier, `on_host` is 1, which divides everything.
    for (const std::size_t each : {granularity_, on_host}) {
        if (each == 0 || segment_bytes % each != 0) {
            return absl::FailedPreconditionError(absl::StrFormat(
                "GPU %d gives memory in pieces of %d bytes, which do not divide %d", device, each, segment_bytes));
        }
    }
    // One unit for both tiers, so that a run of segments fits either.
    granularity_ = std::max(granularity_, on_host);  // both are powers of two, so the larger is a multiple of the
                                                     // smaller
    return absl::OkStatus();
}

/// Returns true if the driver creates host memory for mappings, and sets `*granularity` to its unit; finds the NUMA
/// node next to the GPU. Creates and releases one unit.
bool cuda_driver::find_host_tier(CUdevice device, std::size_t* granularity) {
    // Without NUMA the driver reports -1; node 0 then means all host memory (cuMemCreate's documentation).
    if (calls_.attribute(&host_node_, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device) != CUDA_SUCCESS || host_node_ < 0) {
        host_node_ = 0;
    }
    const CUmemAllocationProp wanted = properties(memory_tier::host);
    std::size_t found = 0;
    if (calls_.granularity(&found, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS || found == 0) {
        return false;
    }
    // Only an attempt shows whether this driver, in this container, provides such memory.
    CUmemGenericAllocationHandle handle{};
    if (calls_.create(&handle, found, &wanted, 0) != CUDA_SUCCESS) {
        return false;
    }
    // The unit was never mapped, so that releasing the handle gives its memory back.
    calls_.release(handle);
    *granularity = found;
    return true;
}

/// Addresses anywhere (no wish, no flags). `alignment` divides the gap, as no backing asks for more than a
/// segment's. Cost: 11 us for 1 TB (docs/limits.md).
absl::StatusOr<char*> cuda_driver::reserve(std::size_t bytes, std::size_t alignment) {
    const detail::current_device here(memory_.device());
    CUdeviceptr at = 0;
    // Room for a gap on either side. The first gap is a multiple of `alignment`, so that the address behind it is
    // aligned, too.
    const CUresult result = calls_.reserve(&at, bytes + 2 * gap, alignment, 0, 0);
    if (auto s = calls_.check(result, "cuMemAddressReserve", bytes); !s.ok()) {
        return s;
    }
    return reinterpret_cast<char*>(at) + gap;
}

/// Out of memory is an expected result, after which the backing tries less memory or the other tier. The message
/// therefore has the free bytes of the tier, which cost a second call only in this case.
absl::StatusOr<memory_handle> cuda_driver::create(std::size_t bytes, memory_tier tier) {
    if (tier == memory_tier::host && !has_host_tier_) {
        return absl::FailedPreconditionError("this GPU's driver maps no host memory into reserved addresses");
    }
    const detail::current_device here(memory_.device());
    const CUmemAllocationProp wanted = properties(tier);
    CUmemGenericAllocationHandle handle{};
    const CUresult result = calls_.create(&handle, bytes, &wanted, 0);
    if (auto s = calls_.check(result, "cuMemCreate", bytes); absl::IsResourceExhausted(s)) {
        const auto device = device_memory();
        // The host's free memory is that of the system, which a container's limit may lower further.
        const std::uint64_t free_bytes = tier == memory_tier::host
                                             ? static_cast<std::uint64_t>(sysconf(_SC_AVPHYS_PAGES)) *
                                                   static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE))
                                             : (device.ok() ? device->free : 0);
        return absl::ResourceExhaustedError(absl::StrFormat("%s; the %s has %d bytes free", s.message(),
                                                            tier == memory_tier::host ? "host" : "GPU", free_bytes));
    } else if (!s.ok()) {
        return s;
    }
    return memory_handle{handle};
}

/// The driver frees the memory once it is not mapped any more.
void cuda_driver::destroy(memory_handle memory, std::size_t) {
    const detail::current_device here(memory_.device());
    calls_.release(static_cast<CUmemGenericAllocationHandle>(memory));
}

/// Maps the whole memory from its first byte on.
absl::Status cuda_driver::map(char* at, std::size_t bytes, memory_handle memory) {
    const detail::current_device here(memory_.device());
    const CUresult result = calls_.map(as_device(at), bytes, 0, static_cast<CUmemGenericAllocationHandle>(memory), 0);
    return calls_.check(result, "cuMemMap", bytes);
}

/// Gives access to the GPU alone: memory of the spill tier is for kernels and copies (docs/backings.md).
absl::Status cuda_driver::set_access(char* at, std::size_t bytes) {
    const detail::current_device here(memory_.device());
    return calls_.check(give_access(at, bytes, memory_tier::device), "cuMemSetAccess", bytes);
}

absl::Status cuda_driver::unmap(char* at, std::size_t bytes) {
    const detail::current_device here(memory_.device());
    return calls_.check(calls_.unmap(as_device(at), bytes), "cuMemUnmap", bytes);
}

}  // namespace

// Documented in memory_driver.hpp, like the functions below.
absl::StatusOr<memory_driver::amounts> cuda_device_memory() {
    std::size_t free_bytes = 0;
    std::size_t total = 0;
    if (auto s = detail::to_status(cudaMemGetInfo(&free_bytes, &total), "cudaMemGetInfo"); !s.ok()) {
        return s;
    }
    return memory_driver::amounts{free_bytes, total};
}

bool cuda_loads_kernels_eagerly() {
    // Looked up by name like all of the driver's functions, since the program starts without a driver, too.
    decltype(cuModuleGetLoadingMode)* loading_mode = nullptr;
    CUmoduleLoadingMode mode{};
    return detail::driver_calls::find("cuModuleGetLoadingMode", loading_mode).ok() &&
           loading_mode(&mode) == CUDA_SUCCESS && mode == CU_MODULE_EAGER_LOADING;
}

absl::StatusOr<std::unique_ptr<memory_driver>> make_cuda_driver(absl::Duration patience) {
    // Heaps that ended while a copy was held up may have left memory behind, which this heap could use.
    detail::release_ended_drivers();
    auto result = std::make_unique<cuda_driver>();
    if (auto s = result->initialize(patience); !s.ok()) {
        // Not destroyed here: if creating the streams exceeded the deadline, the destructor would wait for it.
        detail::end_driver(std::move(result));
        return s;
    }
    return result;
}

}  // namespace orchard

#else

namespace orchard {

absl::StatusOr<memory_driver::amounts> cuda_device_memory() {
    return absl::FailedPreconditionError("this build has no CUDA support; use the emulated device");
}

bool cuda_loads_kernels_eagerly() { return false; }

absl::StatusOr<std::unique_ptr<memory_driver>> make_cuda_driver(absl::Duration) {
    return absl::FailedPreconditionError("this build has no CUDA support; use the emulated device");
}

}  // namespace orchard

#endif
