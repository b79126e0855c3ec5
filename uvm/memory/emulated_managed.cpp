// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "uvm/geometry/geometry.hpp"
#include "uvm/memory/emulated_memory.hpp"
#include "uvm/memory/managed_memory.hpp"

namespace orchard {
namespace {

/// Managed memory of the emulated device: one `mmap`, all of it accessible from the start. There is no driver to
/// advise, and one processor alone, so that moving memory does nothing.
class emulated_managed_memory final : public managed_memory {
public:
    absl::StatusOr<char*> allocate(std::size_t bytes) override {
        // One segment more, so that the range can be aligned to a segment.
        range_ = detail::mapping(bytes + segment_bytes, PROT_READ | PROT_WRITE);
        if (!range_.ok()) {
            return detail::exhausted("reserve", bytes);
        }
        const auto address = reinterpret_cast<std::uintptr_t>(range_.data());
        return range_.data() + (segment_bytes - address % segment_bytes) % segment_bytes;
    }
    absl::Status advise(char*, std::size_t, managed_advice) override { return absl::OkStatus(); }
    absl::Status prefetch(char*, std::size_t, memory_tier) override { return absl::OkStatus(); }
    [[nodiscard]] bool can_discard() const override { return true; }
    /// Gives the pages back; the next access finds zeros. A GPU's driver leaves the contents undefined.
    absl::Status discard(char* at, std::size_t bytes) override {
        return madvise(at, bytes, MADV_DONTNEED) == 0 ? absl::OkStatus() : detail::exhausted("discard", bytes);
    }

private:
    detail::mapping range_;
};

}  // namespace

std::unique_ptr<managed_memory> make_emulated_managed_memory() { return std::make_unique<emulated_managed_memory>(); }

}  // namespace orchard
