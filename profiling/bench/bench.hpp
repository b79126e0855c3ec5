// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `orchard bench <name>`: measurements as subcommands. This header is the interface between the command
/// (bench_command.cpp) and the benchmarks, of which each file registers its own.
///
/// A benchmark returns rows. A row is a flat JSON object: its first keys say what was measured (the axes), the others
/// hold the measured values, with the unit at the end of the key (`malloc_us`, `committed_mib`). The command prints the
/// rows, and with --json writes them in a document (profiling/results/README.md describes how a result is made of
/// them).
///
/// Times of kernels are those of `simt::launch_result::microseconds`: between two CUDA events around the launch, or by
/// the host's clock on the emulated device; benchmarks that use other clocks say so. Times of the emulated device show
/// only that a benchmark works.

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

/// The parameters of every benchmark, from the command line.
struct settings {
    options heap;  ///< the options of the heaps; a benchmark sets those that it depends on itself
    simt::device_kind device = simt::device_kind::emulated;  ///< where kernels run; never a request for "automatic"
    int repeats = 20;              ///< measured launches a row; benchmarks add launches as a warm-up
    bool quick = false;            ///< small sizes, to test the benchmark itself
    std::uint64_t operations = 0;  ///< for benchmarks that count allocations; 0: the benchmark's default
    bool large = false;            ///< of `soak`: blocks of 512 KiB to 4 MiB alone
    int seconds = 0;               ///< for benchmarks that run for a time; 0: the benchmark's default
    std::string from;              ///< of `replay`: the trace's file
};

/// Returns `count` threads, halved until a heap for them, of `needed(count)` bytes, is within the limit of managed
/// heaps. Heaps of other backings have no limit.
template <class Needed>
std::uint64_t threads_within_limit(const options& values, std::uint64_t count, Needed needed) {
    const bool limited = values.backing == backing_option::managed && values.managed_limit != 0;
    while (limited && count > 1 && needed(count) > values.managed_limit) {
        count /= 2;
    }
    return count;
}

/// Returns OK if a benchmark may take `bytes` of managed memory outside a heap, by the rules of managed heaps. Errors:
/// InvalidArgument above `managed_limit`; ResourceExhausted, unless `allow_oversubscription`, above nine tenths of what
/// the GPU has free; the driver's own.
absl::Status check_managed(const settings& s, std::uint64_t bytes);

/// A benchmark: returns its rows, an array of flat objects. Errors: the reason why it could not be measured.
struct benchmark {
    std::string name;  ///< the word after `orchard bench`
    std::string help;  ///< one line for `--help`
    std::function<absl::StatusOr<nlohmann::ordered_json>(const settings&)> run;
    std::string shown = "";  ///< says which repetitions the times belong to; printed below the rows
};

/// A static object that registers a benchmark before `main`. The files of benchmarks therefore need no common list; the
/// order of their constructors does not matter.
class registrar {
public:
    explicit registrar(benchmark b);
};

/// Returns all registered benchmarks, sorted by name.
const std::vector<benchmark>& all();

/// Returns the median; `values` must not be empty. Of an even number of values it is the greater of the two in the
/// middle, so that the result is always one of the measured values.
double median(std::vector<double> values);

}  // namespace orchard::bench
