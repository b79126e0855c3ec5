// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "profiling/bench/bench.hpp"

#include <algorithm>

namespace orchard::bench {
namespace {

std::vector<benchmark>& registry() {
    static std::vector<benchmark> benchmarks;
    return benchmarks;
}

}  // namespace

registrar::registrar(benchmark b) {
    auto& all = registry();
    all.insert(std::upper_bound(all.begin(), all.end(), b,
                                [](const benchmark& x, const benchmark& y) { return x.name < y.name; }),
               std::move(b));
}

const std::vector<benchmark>& all() { return registry(); }

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

}  // namespace orchard::bench
