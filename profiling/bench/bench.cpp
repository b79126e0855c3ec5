// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The list of benchmarks, and the median that their tables show.

#include "profiling/bench/bench.hpp"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "uvm/memory/memory_driver.hpp"

namespace orchard::bench {
namespace {

/// Returns the list of benchmarks. A local static, because registrars of other files run before `main` in any order: a
/// plain global might not be constructed yet.
std::vector<benchmark>& registry() {
    static std::vector<benchmark> benchmarks;
    return benchmarks;
}

}  // namespace

registrar::registrar(benchmark b) {
    auto& all = registry();
    // Inserted in its place, so that the list is always sorted by name.
    all.insert(std::upper_bound(all.begin(), all.end(), b,
                                [](const benchmark& x, const benchmark& y) { return x.name < y.name; }),
               std::move(b));
}

const std::vector<benchmark>& all() { return registry(); }

absl::Status check_managed(const settings& s, std::uint64_t bytes) {
    if (s.heap.managed_limit != 0 && bytes > s.heap.managed_limit) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "this benchmark takes %d bytes of managed memory, more than managed_limit, which is %d; raise "
            "the limit if nothing else uses the GPU",
            bytes, s.heap.managed_limit));
    }
    if (s.device != simt::device_kind::cuda || s.heap.allow_oversubscription) {
        return absl::OkStatus();
    }
    const auto now = cuda_device_memory();
    if (!now.ok()) {
        return now.status();
    }
    if (bytes > now->free / 10 * 9) {
        return absl::ResourceExhaustedError(absl::StrFormat(
            "this benchmark takes %d bytes of managed memory, more than nine tenths of the %d of %d bytes "
            "that the device has free; set the option allow_oversubscription if nothing else uses the GPU",
            bytes, now->free, now->total));
    }
    return absl::OkStatus();
}

double median(std::vector<double> values) {
    // Not a full sort, because only one element is wanted: linear time.
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

}  // namespace orchard::bench
