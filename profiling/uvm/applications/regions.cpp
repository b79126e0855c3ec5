// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The table of regions, and a source that translates each address as it is read.

#include "profiling/uvm/applications/regions.hpp"

#include <utility>

#include "absl/status/statusor.h"

namespace orchard::applications {

absl::Status regions::add(std::span<const part> parts, std::uint64_t bytes_per_thread, std::uint64_t element_bytes) {
    // The placement that an empty heap would give an array of such parts.
    uvm_model::thread_memory memory = like_;
    memory.bytes_per_thread = bytes_per_thread;
    memory.element_bytes = element_bytes;
    absl::StatusOr<uvm_model::placement> where = uvm_model::placement::create(memory);
    if (!where.ok()) {
        return where.status();
    }
    // Parts of one chunk meet in one region: it has a thread for each position.
    for (std::uint32_t t = 0; t < parts.size(); ++t) {
        const part& p = parts[t];
        region& r = at_[p.chunk];
        // The extent of the elements of all lanes in the chunk, padding between tiles included.
        r.bytes = p.map.size(bytes_per_thread).bytes;
        r.array = arrays_.size();
        r.map = p.map;
        r.thread_at[p.position] = t;
    }
    // The next array begins behind this one: whole VA blocks.
    const std::uint64_t bytes = where->bytes();
    arrays_.push_back({end_, *std::move(where)});
    end_ += bytes;
    return absl::OkStatus();
}

std::uint64_t regions::find(std::uint64_t address) const {
    // The last region that begins at or before the address, if the address is inside.
    auto next = at_.upper_bound(address);
    if (next == at_.begin()) {
        return end_;
    }
    const auto& [begin, r] = *--next;
    if (address - begin >= r.bytes) {
        return end_;
    }
    const lane_byte byte = r.map.byte_at(address - begin);
    const placed_array& array = arrays_[r.array];
    // Padding of the chunk behind the elements belongs to no thread.
    if (byte.offset >= array.where.memory().bytes_per_thread) {
        return end_;
    }
    return array.begin + array.where.address(r.thread_at[byte.position], byte.offset);
}

/// The accesses of another source, at other addresses.
class in_order_source final : public uvm_model::access_source {
public:
    in_order_source(uvm_model::access_source& from, std::uint64_t base, const regions& of)
        : from_{from}, base_{base}, regions_{of} {}

    [[nodiscard]] std::uint64_t bytes() const override { return regions_.end_; }
    [[nodiscard]] std::uint32_t warps() const override { return from_.warps(); }
    // Same steps, same lanes; only addresses change.
    std::size_t step(std::uint32_t warp, std::uint64_t access_number, uvm_model::step_buffer out) override {
        const std::size_t count = from_.step(warp, access_number, out);
        for (std::size_t i = 0; i < count; ++i) {
            out[i].address = regions_.find(base_ + out[i].address);
        }
        return count;
    }

private:
    uvm_model::access_source& from_;
    std::uint64_t base_;
    const regions& regions_;
};

std::unique_ptr<uvm_model::access_source> regions::in_order(uvm_model::access_source& from, std::uint64_t base) const {
    return std::make_unique<in_order_source>(from, base, *this);
}

}  // namespace orchard::applications
