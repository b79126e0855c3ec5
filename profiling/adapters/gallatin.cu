// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Gallatin (P. McCoy and P. Pandey, PPoPP 2024) in the arena, compiled against a checkout of its authors' code
/// (docs/arena.md). Its parameters are those of its global allocator: segments of 16 MiB, slices of 16 B to 4 KiB.

#include <gallatin/allocators/gallatin.cuh>

#include <utility>

#include "profiling/adapters/authors_view.cuh"
#include "profiling/arena/adapter.hpp"

namespace orchard::arena {
namespace {

using their_gallatin = gallatin::allocators::Gallatin<16ull << 20, 16, 4096>;

class gallatin_owner {
public:
    static absl::StatusOr<gallatin_owner> create(const simt::executor&, std::uint64_t bytes) {
        gallatin_owner made;
        made.bytes_ = bytes;
        absl::Status s = made.initialise();
        return s.ok() ? absl::StatusOr<gallatin_owner>(std::move(made)) : s;
    }
    gallatin_owner(gallatin_owner&& other) noexcept
        : theirs_{std::exchange(other.theirs_, nullptr)}, bytes_{other.bytes_} {}
    gallatin_owner& operator=(gallatin_owner&& other) = delete;
    ~gallatin_owner() { release(); }

    [[nodiscard]] authors_view<their_gallatin> ref() const { return {theirs_}; }
    /// Makes it anew: it has no other way to become empty.
    absl::Status initialise() {
        release();
        theirs_ = their_gallatin::generate_on_device(bytes_, 42, false);
        const cudaError_t error = cudaDeviceSynchronize();
        return error == cudaSuccess && theirs_ != nullptr
                   ? absl::OkStatus()
                   : absl::InternalError(std::string("Gallatin: ") + cudaGetErrorString(error));
    }

private:
    gallatin_owner() = default;
    void release() {
        if (theirs_ != nullptr) {
            their_gallatin::free_on_device(std::exchange(theirs_, nullptr));
        }
    }

    their_gallatin* theirs_ = nullptr;
    std::uint64_t bytes_ = 0;
};

const registrar gallatin_registered{adapt<gallatin_owner>({.name = "gallatin",
                                                           .source = "McCoy and Pandey, PPoPP 2024: the authors' code",
                                                           .needs_cuda = true,
                                                           .commit = ORCHARD_ADAPTER_COMMIT},
                                                          gallatin_owner::create)};

}  // namespace
}  // namespace orchard::arena
