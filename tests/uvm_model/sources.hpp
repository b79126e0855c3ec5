// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Accesses for tests of the paging model, and shorthand for models and services.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "uvm/model/paging_model.hpp"

namespace orchard::testing {

inline constexpr std::uint64_t kib = 1ull << 10;
inline constexpr std::uint64_t mib = 1ull << 20;

using uvm_model::access;
using uvm_model::access_kind;
using uvm_model::page_mask;
using uvm_model::page_range;

/// For each warp a list of steps, and for each step its accesses.
class listed_source final : public uvm_model::access_source {
public:
    using steps = std::vector<std::vector<access>>;
    listed_source(std::uint64_t bytes, std::vector<steps> warps) : bytes_{bytes}, warps_{std::move(warps)} {}

    [[nodiscard]] std::uint64_t bytes() const override { return bytes_; }
    [[nodiscard]] std::uint32_t warps() const override { return static_cast<std::uint32_t>(warps_.size()); }
    std::size_t step(std::uint32_t warp, std::uint64_t index, uvm_model::step_buffer out) override {
        if (index >= warps_[warp].size()) {
            return 0;
        }
        const std::vector<access>& accesses = warps_[warp][index];
        std::copy(accesses.begin(), accesses.end(), out.begin());
        return accesses.size();
    }
    /// Return the steps and the accesses of all warps. A step without accesses would be the end of its warp.
    [[nodiscard]] std::uint64_t total_steps() const {
        std::uint64_t n = 0;
        for (const steps& warp : warps_) {
            n += warp.size();
        }
        return n;
    }
    [[nodiscard]] std::uint64_t total_accesses() const {
        std::uint64_t n = 0;
        for (const steps& warp : warps_) {
            for (const std::vector<access>& step : warp) {
                n += step.size();
            }
        }
        return n;
    }

private:
    std::uint64_t bytes_;
    std::vector<steps> warps_;
};

/// Accesses by a function of (warp, step, lane): an address, or nothing if the lane makes no access. A warp ends with
/// its step `steps`.
class computed_source final : public uvm_model::access_source {
public:
    using function = std::function<std::optional<std::uint64_t>(std::uint32_t, std::uint64_t, std::uint32_t)>;
    computed_source(std::uint64_t bytes, std::uint32_t warps, std::uint64_t steps, function address,
                    access_kind kind = access_kind::read)
        : bytes_{bytes}, warps_{warps}, steps_{steps}, address_{std::move(address)}, kind_{kind} {}

    [[nodiscard]] std::uint64_t bytes() const override { return bytes_; }
    [[nodiscard]] std::uint32_t warps() const override { return warps_; }
    std::size_t step(std::uint32_t warp, std::uint64_t index, uvm_model::step_buffer out) override {
        std::size_t n = 0;
        // A step in which no lane accesses anything would be the end.
        for (; index < steps_ && n == 0; ++index) {
            for (std::uint32_t lane = 0; lane < max_lanes; ++lane) {
                if (const std::optional<std::uint64_t> at = address_(warp, index, lane)) {
                    out[n++] = {*at, static_cast<std::uint8_t>(lane), kind_};
                }
            }
        }
        return n;
    }

private:
    std::uint64_t bytes_;
    std::uint32_t warps_;
    std::uint64_t steps_;
    function address_;
    access_kind kind_;
};

/// One warp, one lane, one access a step.
inline listed_source one_lane(std::uint64_t bytes, const std::vector<std::uint64_t>& addresses,
                              access_kind kind = access_kind::read) {
    listed_source::steps steps;
    for (const std::uint64_t at : addresses) {
        steps.push_back({{at, 0, kind}});
    }
    return {bytes, {steps}};
}

/// All pages of a segment.
inline constexpr page_range whole{0, uvm_model::pages_per_segment};

/// Pages of the big pages (64 KiB) `leaves` of a segment.
inline page_mask big_pages(std::initializer_list<std::uint32_t> leaves) {
    page_mask mask;
    for (const std::uint32_t leaf : leaves) {
        mask.add(page_range{leaf * uvm_model::pages_per_big_page, (leaf + 1) * uvm_model::pages_per_big_page});
    }
    return mask;
}

/// The pages `pages` of a segment.
inline page_mask pages(std::initializer_list<std::uint32_t> list) {
    page_mask mask;
    for (const std::uint32_t page : list) {
        mask.add(page);
    }
    return mask;
}

/// The first page of each of `leaves`.
inline page_mask first_pages(std::initializer_list<std::uint32_t> leaves) {
    page_mask mask;
    for (const std::uint32_t leaf : leaves) {
        mask.add(leaf * uvm_model::pages_per_big_page);
    }
    return mask;
}

/// Returns the pages of a segment that are on the GPU.
inline page_mask on_gpu(const uvm_model::managed_space& space, std::uint32_t segment = 0) {
    return space.mask(segment, &uvm_model::page_states::gpu);
}
/// Returns the pages of a segment that are on the CPU.
inline page_mask on_cpu(const uvm_model::managed_space& space, std::uint32_t segment = 0) {
    return space.mask(segment, &uvm_model::page_states::cpu);
}

/// Returns a model with the Titan V's constants; `capacity` chunks of 2 MiB if given.
inline uvm_model::paging_model model_of(std::uint64_t bytes, std::optional<std::uint64_t> chunks = std::nullopt,
                                        std::string_view machine = "titan_v",
                                        uvm_model::paging_policy policy = uvm_model::paging_policy::driver) {
    std::optional<std::uint64_t> capacity;
    if (chunks) {
        capacity = *chunks * segment_bytes;
    }
    absl::StatusOr<uvm_model::paging_model> model =
        uvm_model::paging_model::create({.bytes = bytes,
                                         .capacity = capacity,
                                         .machine = uvm_model::parse_calibration(machine).value(),
                                         .policy = policy});
    EXPECT_TRUE(model.ok()) << model.status();
    return *std::move(model);
}

/// Runs and checks the model; a failure is one of the test.
inline uvm_model::result run(uvm_model::paging_model& model, uvm_model::access_source& source) {
    const absl::StatusOr<uvm_model::result> r = model.run(source);
    EXPECT_TRUE(r.ok()) << r.status();
    EXPECT_TRUE(model.validate().ok()) << model.validate();
    return r.ok() ? *r : uvm_model::result{};
}

}  // namespace orchard::testing
