// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The list of benchmarks, and the median that their tables show.

#include "profiling/bench/bench.hpp"

#include <algorithm>

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

double median(std::vector<double> values) {
    // Not a full sort, because only one element is wanted: linear time.
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

}  // namespace orchard::bench
