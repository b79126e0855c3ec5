// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// RMM's pool in the arena: `scan_rmm_pool`, the baseline of a work generation whose array comes from a
/// `rmm::mr::pool_memory_resource` over `cudaMalloc`. It is called by the host alone and so is no allocator of kernels;
/// the row shows what a program pays that counts first and allocates then. Compiled against the packages librmm and
/// rapids-logger of the Python Package Index (docs/arena.md).

#include <exception>
#include <rmm/cuda_stream_view.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>

#include "profiling/arena/allocators/scan_baseline.cuh"

namespace orchard::arena {
namespace {

/// Arrays of the pool. It has all of the task's memory from the beginning, so that no repetition grows it.
class pool_arrays {
public:
    explicit pool_arrays(const task& t)
        : pool_{rmm::mr::cuda_memory_resource{}, t.memory / alignment * alignment},
          stream_{static_cast<cudaStream_t>(t.on.stream)} {}

    absl::StatusOr<void*> make(std::uint64_t bytes) {
        try {
            return pool_.allocate(stream_, bytes, alignment);
        } catch (const std::exception& error) {
            return absl::ResourceExhaustedError(error.what());
        }
    }
    void free(void* memory, std::uint64_t bytes) { pool_.deallocate(stream_, memory, bytes, alignment); }

private:
    static constexpr std::uint64_t alignment = 256;

    rmm::mr::pool_memory_resource pool_;
    rmm::cuda_stream_view stream_;
};

outcome run_rmm_pool(const task& t) {
    if (!is_for_baselines(t)) {  // no pool for a case that is not run
        outcome none;
        none.ended = verdict::not_offered;
        return none;
    }
    try {
        return run_anew(t, pool_arrays(t));
    } catch (const std::exception& error) {
        measurement m(t);
        m.update(absl::ResourceExhaustedError(error.what()));
        return m.finish();
    }
}

const registrar rmm_pool_registered{{{.name = "scan_rmm_pool",
                                      .source = "a prefix sum and one array of RMM's pool: NVIDIA's code",
                                      .needs_cuda = true,
                                      .commit = ORCHARD_ADAPTER_COMMIT},
                                     run_rmm_pool}};

}  // namespace
}  // namespace orchard::arena
