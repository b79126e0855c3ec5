// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "profiling/apps/model.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
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

absl::StatusOr<predicted> run_and_predict(heap& h, const app& a, job j, std::uint64_t budget) {
    constexpr int most_runs = 4;
    constexpr double margin = 0.8;  // warps do not have the same number of accesses
    j.passes = 1;
    j.moves = false;
    j.trace_every = 1;
    auto found = run_app(h, a, j);
    for (int run = 1; run < most_runs && found.ok() && found->error.ok() && found->recorded.lost != 0; ++run) {
        const auto kept = static_cast<double>(found->recorded.accesses);
        j.part = found->part * margin * kept / (kept + static_cast<double>(found->recorded.lost));
        found = run_app(h, a, j);
    }
    if (!found.ok()) {
        return found.status();
    }
    if (found->error.ok() && found->recorded.lost != 0) {
        found->error = absl::ResourceExhaustedError(absl::StrFormat(
            "the record of a pass has no room for %d accesses; give fewer --threads, or smaller arrays by --bytes",
            found->recorded.lost));
    }
    if (!found->error.ok()) {
        return predicted{*std::move(found), std::nullopt};
    }
    auto counts = predict(found->recorded.trace, budget, found->array_bytes);
    return counts.ok() ? absl::StatusOr<predicted>(predicted{*std::move(found), *counts}) : counts.status();
}

}  // namespace orchard::apps
