// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The two adapters between offsets and addresses; see offsets.hpp. Each keeps one buffer for a step of its source.

#include "uvm/model/offsets.hpp"

#include <array>
#include <utility>

namespace orchard::uvm_model {

namespace {

/// Offsets as addresses. The chunk of the warp is computed once for each step; only accesses to the memory of other
/// warps' threads (as in graph-walk) need the division in `placement::address`.
class placed_source final : public access_source {
public:
    placed_source(std::unique_ptr<offset_source> accesses, const placement& where)
        : accesses_{std::move(accesses)}, where_{where} {}

    [[nodiscard]] std::uint64_t bytes() const override { return where_.bytes(); }
    [[nodiscard]] std::uint32_t warps() const override { return where_.warps(); }
    std::size_t step(std::uint32_t warp, std::uint64_t index, step_buffer out) override {
        const std::size_t count = accesses_->step(warp, index, buffer_);
        const std::uint64_t chunk = where_.chunk(warp);
        const std::uint64_t first = std::uint64_t{warp} * max_lanes;
        for (std::size_t i = 0; i < count; ++i) {
            const offset_access& a = buffer_[i];
            const std::uint64_t lane = a.thread - first;  // mostly the warp's own memory: no division
            const std::uint64_t address =
                lane < max_lanes ? chunk + where_.in_chunk(warp, static_cast<std::uint32_t>(lane), a.offset)
                                 : where_.address(a.thread, a.offset);
            out[i] = {address, a.lane, a.kind};
        }
        return count;
    }

private:
    std::unique_ptr<offset_source> accesses_;
    placement where_;
    std::array<offset_access, max_lanes> buffer_{};
};

/// Addresses as offsets.
class offsets_source final : public offset_source {
public:
    offsets_source(access_source& from, const placement& where) : from_{from}, where_{where} {}

    std::size_t step(std::uint32_t warp, std::uint64_t index, offset_buffer out) override {
        const std::size_t count = from_.step(warp, index, buffer_);
        for (std::size_t i = 0; i < count; ++i) {
            const thread_byte at = where_.byte_at(buffer_[i].address);
            out[i] = {at.thread, at.offset, buffer_[i].lane, buffer_[i].kind};
        }
        return count;
    }

private:
    access_source& from_;
    placement where_;
    std::array<access, max_lanes> buffer_{};
};

}  // namespace

std::unique_ptr<access_source> placed(std::unique_ptr<offset_source> accesses, const placement& where) {
    return std::make_unique<placed_source>(std::move(accesses), where);
}

std::unique_ptr<offset_source> offsets_of(access_source& from, const placement& where) {
    return std::make_unique<offsets_source>(from, where);
}

}  // namespace orchard::uvm_model
