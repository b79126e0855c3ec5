// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "profiling/apps/model.hpp"

#include <algorithm>
#include <optional>

#include "uvm/geometry/geometry.hpp"
#include "uvm/model/calibration.hpp"
#include "uvm/model/paging_model.hpp"
#include "uvm/model/trace_file.hpp"

namespace orchard::apps {

absl::StatusOr<uvm_model::result> predict(const std::string& trace, std::uint64_t budget, std::uint64_t bytes) {
    const auto recorded = uvm_model::trace::parse(trace);
    const auto machine = uvm_model::parse_calibration("h200");
    absl::Status status = recorded.status();
    status.Update(machine.status());
    if (!status.ok()) {
        return status;
    }
    const std::uint64_t space = recorded->header().space_bytes;
    std::optional<std::uint64_t> capacity;
    if (budget < bytes) {
        capacity = std::max(segment_bytes, budget / segment_bytes * segment_bytes);
    }
    auto model = uvm_model::paging_model::create({.bytes = space, .capacity = capacity, .machine = *machine});
    if (!model.ok()) {
        return model.status();
    }
    if (absl::Status s = model->populate({0, space}, uvm_model::processor::cpu); !s.ok()) {
        return s;
    }
    return model->run(*recorded->source());
}

}  // namespace orchard::apps
