// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The backing of memory that the caller supplies (`heap::create_in`).
///
///     bytes at `memory`     |..|======|======|======|...|
///     the heap uses            |======|======|======|          whole segments, aligned to 2 MiB

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "uvm/memory/driven_backing.hpp"

namespace orchard {
namespace {

/// Memory that the caller owns and that is committed from the start (`heap::create_in`). Nothing is committed,
/// decommitted or freed; the driver serves metadata, mailbox and copies alone.
class fixed_backing final : public detail::driven_backing {
public:
    fixed_backing(std::unique_ptr<memory_driver> driver, char* base, std::uint32_t segments)
        : driven_backing{std::move(driver)}, base_{base}, segments_{segments} {}

    [[nodiscard]] char* base() const override { return base_; }
    [[nodiscard]] std::uint32_t segments() const override { return segments_; }
    [[nodiscard]] std::uint32_t committed_at_start() const override { return segments_; }
    // Never called: no segment is uncommitted.
    // `committed_at_start` is the number of all segments, so that growth has no addresses to commit.
    commit_outcome commit(segment_run) override { return {}; }
    /// Capacity and use are the same number, and constant: all memory counts as taken from the machine.
    [[nodiscard]] memory_use use() const override {
        memory_use now;
        now.device_bytes = now.device_budget = std::uint64_t{segments_} << segment_shift;
        now.metadata_bytes = metadata_use_.get();
        return now;
    }

private:
    char* base_;
    std::uint32_t segments_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<backing>> make_fixed_backing(std::unique_ptr<memory_driver> driver, void* memory,
                                                            std::uint64_t bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    // Only whole segments, aligned to a segment, are used:
    //
    //     memory     |..|======|======|======|...|      `gap` bytes before the first, the rest behind the last
    const std::uint64_t gap = (segment_bytes - address % segment_bytes) % segment_bytes;
    const std::uint64_t segments = bytes > gap ? (bytes - gap) >> segment_shift : 0;
    if (memory == nullptr || segments == 0) {
        return absl::InvalidArgumentError(
            absl::StrFormat("%d bytes at %p hold no whole segment of %d bytes at a multiple of that; give at least %d "
                            "bytes, aligned so",
                            bytes, memory, segment_bytes, segment_bytes));
    }
    // A heap has at most one segment less than an index can name.
    const auto used = static_cast<std::uint32_t>(std::min<std::uint64_t>(segments, max_segments - 1));
    return std::make_unique<fixed_backing>(std::move(driver), static_cast<char*>(memory) + gap, used);
}

}  // namespace orchard
