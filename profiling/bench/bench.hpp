// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `orchard bench <name>`: measurements as subcommands. Each prints a table and, with --json, writes its rows
/// (profiling/results/README.md describes how a result is made of them).

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/simt/launch.cuh"
#include "runtime/options/options.hpp"

namespace orchard::bench {

/// The parameters of every benchmark.
struct settings {
    options heap;
    simt::device_kind device = simt::device_kind::emulated;
    int repeats = 20;
    bool quick = false;            ///< small sizes, to test the benchmark itself
    std::uint64_t operations = 0;  ///< for benchmarks that run for long; 0: the benchmark's default
    int seconds = 0;               ///< likewise
};

/// A benchmark: returns its rows, an array of flat objects. Errors: the reason why it could not be measured.
struct benchmark {
    std::string name;
    std::string help;
    std::function<absl::StatusOr<nlohmann::ordered_json>(const settings&)> run;
    std::string shown = "";  ///< says which repetitions the times belong to; printed below the rows
};

/// A static object that registers a benchmark before `main`.
class registrar {
public:
    explicit registrar(benchmark b);
};

/// Returns all registered benchmarks, by name.
const std::vector<benchmark>& all();

/// Returns the median; `values` must not be empty.
double median(std::vector<double> values);

}  // namespace orchard::bench
