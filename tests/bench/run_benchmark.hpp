// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "profiling/bench/bench.hpp"

namespace orchard::bench {

/// The rows of a benchmark of the program, small, on the emulated device; its heaps have `values`.
inline absl::StatusOr<nlohmann::ordered_json> run_quickly(std::string_view name, const options& values = {}) {
    settings s;
    s.heap = values;
    s.quick = true;
    s.repeats = 2;
    s.heap.emulated_workers = 2;
    for (const benchmark& b : all()) {
        if (b.name == name) {
            return b.run(s);
        }
    }
    return absl::NotFoundError("there is no such benchmark");
}

}  // namespace orchard::bench
