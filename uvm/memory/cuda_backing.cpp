// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The fixed backing on a GPU, and its stand-in for a build without CUDA.
///
///     cudaMalloc       | gap |========|========|========| rest |      one segment more than the capacity
///                      base -^ first multiple of 2 MiB; gap and rest together are one segment
///     cudaHostAlloc    mailbox, records of failures, staging memory of copies

#include "uvm/memory/backing.hpp"

#if ORCHARD_HAS_CUDA

#include "uvm/geometry/metadata_count.hpp"
#include "uvm/memory/cuda_memory.hpp"

namespace orchard {
namespace {

/// The fixed backing on a GPU: one `cudaMalloc`, all of it committed from the start. It needs nothing of the driver but
/// the runtime's oldest calls, so that it works where virtual memory cannot be mapped. Its end waits for running
/// kernels, as `cudaFree` does.
class cuda_backing final : public backing {
public:
    explicit cuda_backing(std::uint32_t segments) : segments_{segments} {}

    /// Allocates the memory; call it first. Errors: those of `make_cuda_backing`.
    absl::Status initialize() {
        if (auto s = memory_.initialize(); !s.ok()) {
            return s;
        }
        auto staging = memory_.allocate_host_visible(detail::cuda_memory::staging_bytes);
        if (!staging.ok()) {
            return staging.status();
        }
        memory_.set_staging(*staging);
        // One segment more, so that the first byte can be aligned to a segment: `cudaMalloc` promises only 256 bytes.
        const std::uint64_t bytes = (std::uint64_t{segments_} + 1) << segment_shift;
        auto memory = memory_.allocate(bytes, "the super chunk");
        if (!memory.ok()) {
            return memory.status();
        }
        const auto address = reinterpret_cast<std::uintptr_t>(*memory);
        base_ = static_cast<char*>(*memory) + (segment_bytes - address % segment_bytes) % segment_bytes;
        return absl::OkStatus();
    }

    [[nodiscard]] char* base() const override { return base_; }
    [[nodiscard]] std::uint32_t segments() const override { return segments_; }
    [[nodiscard]] std::uint32_t committed_at_start() const override { return segments_; }
    // Never called: no segment is uncommitted.
    commit_outcome commit(segment_run) override { return {}; }
    /// The segment that only aligns the range is not counted: it is no memory of the user's.
    [[nodiscard]] memory_use use() const override {
        memory_use now;
        now.device_bytes = std::uint64_t{segments_} << segment_shift;
        now.device_budget = now.device_bytes;
        now.metadata_bytes = metadata_.get();
        return now;
    }

    // One `cudaMalloc` for each array of metadata. They are few, and are made while the heap is created.
    absl::StatusOr<void*> allocate_metadata(std::size_t bytes) override {
        return metadata_.add(memory_.allocate_zeroed(bytes, "metadata"), bytes);
    }
    absl::StatusOr<void*> allocate_host_visible(std::size_t bytes) override {
        return metadata_.add(memory_.allocate_host_visible(bytes), bytes);
    }

    [[nodiscard]] void* stream() const override { return memory_.stream(); }
    absl::Status read(void* to, const void* from, std::size_t n) override { return memory_.read(to, from, n); }
    absl::Status write(void* to, const void* from, std::size_t n) override { return memory_.write(to, from, n); }

private:
    std::uint32_t segments_;
    // Owns all memory, and frees it after it has waited for late copies (`cuda_memory::~cuda_memory`).
    detail::cuda_memory memory_;
    char* base_ = nullptr;
    detail::metadata_count metadata_;
};

}  // namespace

/// After an error `result` is destroyed here, and its destructor waits for a late call and for running kernels. The
/// elastic heap avoids that by `end_driver`; this backing has no driver to keep.
absl::StatusOr<std::unique_ptr<backing>> make_cuda_backing(std::uint64_t capacity) {
    auto result = std::make_unique<cuda_backing>(static_cast<std::uint32_t>(capacity >> segment_shift));
    if (auto s = result->initialize(); !s.ok()) {
        return s;
    }
    return result;
}

}  // namespace orchard

#else

namespace orchard {

// The same function in a build without CUDA.
absl::StatusOr<std::unique_ptr<backing>> make_cuda_backing(std::uint64_t) {
    return absl::FailedPreconditionError("this build has no CUDA support; use the emulated device");
}

}  // namespace orchard

#endif
