// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The random walks of M. Pham et al. (ICS 2022) in the arena, compiled against a checkout of their authors' code
/// (docs/arena.md): RW, RW-BM and CoRW, with pages of 4 KiB. Orchard's own are other allocators (docs/random_walk.md).
///
/// Each of their headers defines the same functions and variables: each has a namespace here. The headers that they
/// include come before, outside of the namespaces; a header that comes again is empty.

#include <cub/cub.cuh>

#include <cstdint>
#include <cstdio>
#include <utility>

#include <ErrorHandler.cuh>
#include <RNG_LCG.cuh>

#include "profiling/arena/adapter.hpp"

namespace rw_authors::basic {
#include <RandomWalkBasic.cuh>
}
#undef MM_PAGING_CUH
namespace rw_authors::bitmap {
#include <RandomWalkBasic_BM.cuh>
}
#undef MM_PAGING_CUH
namespace rw_authors::collaborative {
#include <CollabRW_BM.cuh>
}

namespace orchard::arena {
namespace {

constexpr std::uint64_t page = 4096;

/// Names the functions of one of their namespaces. A page is a number there.
#define ORCHARD_RW_AUTHORS(type, space)                                                                                \
    struct type {                                                                                                      \
        static __device__ void* take() { return space::pageAddress(space::getPage()); }                                \
        static __device__ void give(void* p) { space::freePage(space::getPageID(p)); }                                 \
        static void create(std::uint64_t gib) { space::initMemoryManagement(static_cast<int>(gib), page); }            \
        static void empty() { space::resetMemoryManager(); }                                                           \
    }
ORCHARD_RW_AUTHORS(basic, rw_authors::basic);
ORCHARD_RW_AUTHORS(bitmap, rw_authors::bitmap);
ORCHARD_RW_AUTHORS(collaborative, rw_authors::collaborative);
#undef ORCHARD_RW_AUTHORS

template <class Theirs>
struct rw_view {
    ORCHARD_FN void* malloc([[maybe_unused]] std::uint64_t bytes) const {
#if ORCHARD_CUDA_PASS
        return bytes == 0 || bytes > page ? nullptr : Theirs::take();
#else
        return nullptr;
#endif
    }
    ORCHARD_FN void free([[maybe_unused]] void* p) const {
#if ORCHARD_CUDA_PASS
        if (p != nullptr) {
            Theirs::give(p);
        }
#endif
    }
};

/// Their memory comes in whole GiB, and stays until the process ends: they have no function that frees it.
template <class Theirs>
struct rw_owner {
    static absl::StatusOr<rw_owner> create(const simt::executor&, std::uint64_t bytes) {
        constexpr std::uint64_t gib = std::uint64_t{1} << 30;
        Theirs::create((bytes + gib - 1) / gib);
        rw_owner made;
        absl::Status s = made.initialise();
        return s.ok() ? absl::StatusOr<rw_owner>(made) : s;
    }
    [[nodiscard]] rw_view<Theirs> ref() const { return {}; }
    absl::Status initialise() {
        Theirs::empty();
        const cudaError_t error = cudaDeviceSynchronize();
        return error == cudaSuccess ? absl::OkStatus()
                                    : absl::InternalError(std::string("random walk: ") + cudaGetErrorString(error));
    }
};

template <class Theirs>
allocator authors(const char* name) {
    return adapt<rw_owner<Theirs>>({.name = name,
                                    .source = "Pham et al., ICS 2022: the authors' code",
                                    .needs_cuda = true,
                                    .largest = page,
                                    .commit = ORCHARD_ADAPTER_COMMIT},
                                   rw_owner<Theirs>::create);
}

const registrar rw{authors<basic>("authors_rw")};
const registrar rw_bm{authors<bitmap>("authors_rw_bm")};
const registrar corw{authors<collaborative>("authors_corw")};

}  // namespace
}  // namespace orchard::arena
