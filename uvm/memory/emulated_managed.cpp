// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Managed memory of the emulated device, so that tests without a GPU run the code of managed heaps
/// (managed_backing.cpp). It keeps the rules that heaps rely on: ranges aligned to segments, and discarded contents
/// lost.

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
        // Assigned to a member before it is tested, so that `errno` is still that of `mmap`: the assignment swaps, and
        // the empty mapping that is destroyed makes no system call.
        range_ = detail::mapping(bytes + segment_bytes, PROT_READ | PROT_WRITE);
        if (!range_.ok()) {
            return detail::exhausted("reserve", bytes);
        }
        const auto address = reinterpret_cast<std::uintptr_t>(range_.data());
        return range_.data() + (segment_bytes - address % segment_bytes) % segment_bytes;
    }
    // Every call of these succeeds, whatever the range: nothing checks the arguments here.
    absl::Status advise(char*, std::size_t, managed_advice) override { return absl::OkStatus(); }
    absl::Status begin_prefetch(char*, std::size_t, memory_tier) override { return absl::OkStatus(); }
    [[nodiscard]] bool is_moving() const override { return false; }
    absl::Status finish() override { return absl::OkStatus(); }
    [[nodiscard]] bool can_discard() const override { return true; }
    /// Gives the pages back; the next access finds zeros. A GPU's driver leaves the contents undefined.
    absl::Status discard(char* at, std::size_t bytes) override {
        // The addresses stay mapped and accessible, unlike after `make_inaccessible`.
        return madvise(at, bytes, MADV_DONTNEED) == 0 ? absl::OkStatus() : detail::exhausted("discard", bytes);
    }

private:
    detail::mapping range_;
};

}  // namespace

std::unique_ptr<managed_memory> make_emulated_managed_memory() { return std::make_unique<emulated_managed_memory>(); }

}  // namespace orchard
