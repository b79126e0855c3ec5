// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Code that the tests of traces share: accesses in a form that can be compared and printed.

#include <array>
#include <cstdint>
#include <ostream>
#include <span>
#include <vector>

#include "device/simt/emulated/recorder.hpp"
#include "uvm/model/access.hpp"

namespace orchard::uvm_model {

inline bool operator==(const access& a, const access& b) {
    return a.address == b.address && a.lane == b.lane && a.kind == b.kind;
}
inline std::ostream& operator<<(std::ostream& out, const access& a) {
    return out << "lane " << int{a.lane} << " "
               << "rwa"[static_cast<int>(a.kind)] << " " << a.address;
}

}  // namespace orchard::uvm_model

namespace orchard::simt::emulated {

inline std::ostream& operator<<(std::ostream& out, const recorded_access& a) {
    return out << "step " << a.step << " lane " << int{a.lane} << " "
               << "lsm"[static_cast<int>(a.kind)] << " " << a.offset;
}

}  // namespace orchard::simt::emulated

namespace orchard::test {

/// Steps of one warp.
using steps_of_warp = std::vector<std::vector<uvm_model::access>>;

/// Everything that a source has, by warp.
inline std::vector<steps_of_warp> all_of(uvm_model::access_source& source) {
    std::vector<steps_of_warp> all(source.warps());
    std::array<uvm_model::access, max_lanes> buffer;
    for (std::uint32_t w = 0; w < source.warps(); ++w) {
        std::size_t count = 0;
        for (std::uint64_t i = 0; (count = source.step(w, i, buffer)) != 0; ++i) {
            all[w].emplace_back(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(count));
        }
    }
    return all;
}

/// A source of the steps given.
class given_source final : public uvm_model::access_source {
public:
    given_source(std::uint64_t bytes, std::vector<steps_of_warp> steps) : bytes_{bytes}, steps_{std::move(steps)} {}

    [[nodiscard]] std::uint64_t bytes() const override { return bytes_; }
    [[nodiscard]] std::uint32_t warps() const override { return static_cast<std::uint32_t>(steps_.size()); }
    std::size_t step(std::uint32_t warp, std::uint64_t index, uvm_model::step_buffer out) override {
        if (index >= steps_[warp].size()) {
            return 0;
        }
        std::copy(steps_[warp][index].begin(), steps_[warp][index].end(), out.begin());
        return steps_[warp][index].size();
    }

private:
    std::uint64_t bytes_;
    std::vector<steps_of_warp> steps_;
};

}  // namespace orchard::test
