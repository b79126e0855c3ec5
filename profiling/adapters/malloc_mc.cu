// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// mallocMC (C. Eckert, 2014) in the arena, compiled against a checkout of its sources with the alpaka in it
/// (docs/arena.md): ScatterAlloc (M. Steinberger et al., 2012) with the parameters of mallocMC's examples, alone and
/// behind the lanes' common requests of XMalloc, as PIConGPU has it. Its functions take alpaka's object of a thread,
/// which has no state: the view makes one for each call.

#define ALPAKA_ACC_GPU_CUDA_ENABLED  // the headers below offer CUDA then

#include <alpaka/alpaka.hpp>
#include <exception>
#include <mallocMC/mallocMC.hpp>
#include <memory>
#include <optional>

#include "profiling/arena/adapter.hpp"

namespace orchard::arena {
namespace {

using number = std::uint32_t;
using accelerator = alpaka::AccGpuCudaRt<alpaka::DimInt<1>, number>;
using queue = alpaka::Queue<accelerator, alpaka::Blocking>;

struct heap_shape {
    static constexpr auto pagesize = 4096;
    static constexpr auto accessblocksize = 2u << 30;
    static constexpr auto regionsize = 16;
    static constexpr auto wastefactor = 2;
    static constexpr auto resetfreedpages = false;
};
struct hash_shape {
    static constexpr auto hashingK = 38183;
    static constexpr auto hashingDistMP = 17497;
    static constexpr auto hashingDistWP = 1;
    static constexpr auto hashingDistWPRel = 1;
};
struct simd_shape {
    static constexpr auto pagesize = heap_shape::pagesize;
};
struct alignment_shape {
    static constexpr auto dataAlignment = 16;
};

template <class Distribution>
using their_allocator =
    mallocMC::Allocator<accelerator, mallocMC::CreationPolicies::Scatter<heap_shape, hash_shape>, Distribution,
                        mallocMC::OOMPolicies::ReturnNull, mallocMC::ReservePoolPolicies::AlpakaBuf<accelerator>,
                        mallocMC::AlignmentPolicies::Shrink<alignment_shape>>;
using alone = their_allocator<mallocMC::DistributionPolicies::Noop>;
using together = their_allocator<mallocMC::DistributionPolicies::XMallocSIMD<simd_shape>>;

template <class Theirs>
struct malloc_mc_view {
    typename Theirs::DevAllocator* theirs;

    ORCHARD_FN void* malloc([[maybe_unused]] std::uint64_t bytes) const {
#if ORCHARD_CUDA_PASS
        const accelerator here(alpaka::Vec<alpaka::DimInt<1>, number>::ones());
        return bytes == 0 ? nullptr : theirs->malloc(here, bytes);
#else
        return nullptr;
#endif
    }
    ORCHARD_FN void free([[maybe_unused]] void* p) const {
#if ORCHARD_CUDA_PASS
        if (p != nullptr) {
            const accelerator here(alpaka::Vec<alpaka::DimInt<1>, number>::ones());
            theirs->free(here, p);
        }
#endif
    }
};

template <class Theirs>
class malloc_mc_owner {
public:
    static absl::StatusOr<malloc_mc_owner> create(const simt::executor&, std::uint64_t bytes) {
        malloc_mc_owner made;
        made.bytes_ = bytes;
        absl::Status s = made.initialise();
        return s.ok() ? absl::StatusOr<malloc_mc_owner>(std::move(made)) : s;
    }
    [[nodiscard]] malloc_mc_view<Theirs> ref() const { return {theirs_->getAllocatorHandle().devAllocator}; }
    /// Makes it anew: it has no other way to become empty.
    absl::Status initialise() {
        theirs_.reset();
        try {  // alpaka throws what CUDA reports
            auto device = alpaka::getDevByIdx(alpaka::Platform<accelerator>{}, 0);
            queue work(device);
            theirs_ = std::make_unique<Theirs>(device, work, bytes_);
            alpaka::wait(work);
        } catch (const std::exception& e) {
            return absl::InternalError(std::string("mallocMC: ") + e.what());
        }
        return absl::OkStatus();
    }

private:
    malloc_mc_owner() = default;

    std::unique_ptr<Theirs> theirs_;
    std::uint64_t bytes_ = 0;
};

template <class Theirs>
allocator of(const char* name) {
    return adapt<malloc_mc_owner<Theirs>>({.name = name,
                                           .source = "mallocMC: ScatterAlloc (Steinberger et al., 2012)",
                                           .needs_cuda = true,
                                           .commit = ORCHARD_ADAPTER_COMMIT},
                                          malloc_mc_owner<Theirs>::create);
}

const registrar scatter{of<alone>("mallocmc_scatter")};
const registrar scatter_together{of<together>("mallocmc_scatter_simd")};

}  // namespace
}  // namespace orchard::arena
