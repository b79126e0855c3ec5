// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The six variants of Ouroboros (M. Winter et al., ICS 2020) in the arena, compiled against a checkout of its authors'
/// code (docs/arena.md). Their sizes are that code's own: 16 B to 8 KiB. Orchard's own Ouroboros is another allocator
/// (docs/ouroboros.md).

#include <iostream>

#include <device/Ouroboros_impl.cuh>

#include <InstanceDefinitions.cuh>
#include <device/MemoryInitialization.cuh>

#include <memory>
#include <utility>

#include "profiling/adapters/authors_view.cuh"
#include "profiling/arena/adapter.hpp"

namespace orchard::arena {
namespace {

template <class Theirs>
struct authors_owner {
    std::unique_ptr<Theirs> theirs;
    std::uint64_t bytes = 0;

    static absl::StatusOr<authors_owner> create(const simt::executor&, std::uint64_t bytes) {
        authors_owner made{nullptr, bytes};
        absl::Status s = made.initialise();
        return s.ok() ? absl::StatusOr<authors_owner>(std::move(made)) : s;
    }
    [[nodiscard]] authors_view<Theirs> ref() const { return {theirs->getDeviceMemoryManager()}; }
    /// Makes it anew: it has no other way to become empty.
    absl::Status initialise() {
        theirs = std::make_unique<Theirs>();
        theirs->initialize(bytes);
        const cudaError_t error = cudaDeviceSynchronize();
        return error == cudaSuccess ? absl::OkStatus()
                                    : absl::InternalError(std::string("Ouroboros: ") + cudaGetErrorString(error));
    }
};

template <class Theirs>
allocator authors(const char* name) {
    return adapt<authors_owner<Theirs>>({.name = name,
                                         .source = "Winter et al., ICS 2020: the authors' code",
                                         .needs_cuda = true,
                                         .largest = 8192,
                                         .commit = ORCHARD_ADAPTER_COMMIT},
                                        authors_owner<Theirs>::create);
}

const registrar pages{authors<OuroPQ>("authors_ouroboros_sp")};
const registrar chunks{authors<OuroCQ>("authors_ouroboros_sc")};
const registrar array_pages{authors<OuroVAPQ>("authors_ouroboros_vap")};
const registrar array_chunks{authors<OuroVACQ>("authors_ouroboros_vac")};
const registrar list_pages{authors<OuroVLPQ>("authors_ouroboros_vlp")};
const registrar list_chunks{authors<OuroVLCQ>("authors_ouroboros_vlc")};

}  // namespace
}  // namespace orchard::arena
