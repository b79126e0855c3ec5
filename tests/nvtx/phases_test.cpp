// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Every application and benchmark of the program marks its phases: each runs small on the emulated device, under the
// recorder. A new command or benchmark has to be added here.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <checkout.hpp>
#include <filesystem>
#include <map>
#include <ostream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "device/simt/launch_watch.hpp"
#include "profiling/bench/bench.hpp"
#include "tests/nvtx/record.hpp"
#include "tests/support/run_command.hpp"

namespace orchard::test {
namespace {

using names = std::set<std::string>;

const names phases{"build", "allocate", "compute", "free", "migrate"};
/// The ranges that a heap makes itself.
const names of_heaps{"serve requests", "request waits for memory", "commit", "decommit", "move", "trim"};

/// Runs `orchard` with these words, and returns the names of the phases that it marked. Every range must be a phase or
/// a heap's own.
names phases_of(const std::vector<std::string>& words) {
    const std::size_t first = nvtx_record::lines();
    const outcome done = run_with(words);
    simt::watched_launches.store(nullptr, std::memory_order_release);  // other tests begin without a watch
    EXPECT_EQ(done.code, 0) << done.err << done.out;
    const nvtx_record record(first);
    EXPECT_TRUE(record.errors.empty()) << record.errors.front();
    names found;
    for (const auto& [name, ranges] : record.ranges) {
        EXPECT_TRUE(phases.contains(name) || of_heaps.contains(name)) << name;
        if (phases.contains(name)) {
            found.insert(name);
        }
    }
    return found;
}

std::vector<std::string> emulated(std::vector<std::string> words) {
    words.insert(words.end(), {"--device", "emulated", "--emulated-workers", "2"});
    return words;
}

/// A complete trace of a small walk.
const std::string walk = ORCHARD_SOURCE_DIR "/tests/fuzz/corpus/event_trace/walk";

std::string picture() { return testing::TempDir() + "phases_" + std::to_string(::getpid()) + ".svg"; }

/// A command that runs kernels, as a small run, and phases that it has at least.
struct marking_command {
    std::string name;
    std::vector<std::string> words;
    names has;
};
void PrintTo(const marking_command& one, std::ostream* to) { *to << one.name; }

const std::vector<marking_command>& marking_commands() {
    static const std::vector<marking_command> all{
        {"apps",
         emulated({"gemm", "--threads", "64", "--passes", "1", "--bytes", "1MiB", "--capacity", "64MiB"}),
         {"allocate", "build", "compute", "free"}},
        {"oversubscribe",
         emulated({"--capacity", "32MiB", "--data", "2", "--patterns", "random", "--ways", "move", "--threads", "64",
                   "--passes", "3", "--accesses", "64"}),
         {"allocate", "build", "compute", "free", "migrate"}},
        {"demo", emulated({"--quiet"}), {"allocate", "compute", "free"}},
        {"graph",
         emulated({"rmat:6", "--batch", "200", "--analyses", "bfs"}),
         {"allocate", "build", "compute", "free"}},
        {"join", emulated({"--tuples", "2000", "--repeats", "2"}), {"allocate", "build", "compute", "free"}},
        {"layouts", emulated({}), {"build", "compute", "free"}},
        {"map", emulated({"--example", "-o", picture()}), {"allocate"}},
        {"particles",
         emulated({"--primaries", "30", "--energy", "30", "--track-bytes", "4096"}),
         {"build", "compute", "free", "migrate"}},
        {"programs", {"both_devices"}, {"build", "compute"}},
        {"quickstart", emulated({}), {"build", "compute"}},
        {"tree",
         emulated({"--edges", "2000", "--nodes", "300", "--bodies", "500", "--repeats", "1"}),
         {"build", "compute", "free"}},
        {"uvm", {"--pattern", "gemm", "--threads", "64", "--scale", "4"}, {"allocate", "compute"}},
        {"walk", emulated({"--rmat", "6", "--quiet"}), {"allocate", "compute", "free"}},
        {"replay", emulated({walk}), {"compute"}}};
    return all;
}

/// Commands that run no kernel in this process, and `bench`, whose benchmarks have a test each.
const names others{"bench", "profile", "top", "info", "options", "trace"};

class marking : public testing::TestWithParam<marking_command> {};
std::string name_of(const testing::TestParamInfo<marking_command>& one) { return one.param.name; }
INSTANTIATE_TEST_SUITE_P(command, marking, testing::ValuesIn(marking_commands()), name_of);

TEST_P(marking, has_its_phases) {
    std::vector<std::string> words{GetParam().name};
    words.insert(words.end(), GetParam().words.begin(), GetParam().words.end());
    const names found = phases_of(words);
    EXPECT_TRUE(std::ranges::includes(found, GetParam().has)) << testing::PrintToString(found);
    std::filesystem::remove(picture());
}

/// Returns the names of the subcommands in the help: the first word of each line that is set in.
names subcommands() {
    names found;
    std::istringstream help(run_with({"--help"}).out);
    for (std::string line; std::getline(help, line);) {
        if (line.starts_with("  ") && line[2] != ' ' && line[2] != '-') {
            found.insert(line.substr(2, line.find(' ', 2) - 2));
        }
    }
    return found;
}

TEST(marking_commands, are_all_that_run_kernels) {
    names known = others;
    for (const marking_command& c : marking_commands()) {
        known.insert(c.name);
    }
    EXPECT_EQ(subcommands(), known);
}

/// What a benchmark needs beside the words of all.
const std::map<std::string, std::vector<std::string>> further_words{{"replay", {"--from", walk}}};
/// Phases that a benchmark has at least, where that is more than any.
const std::map<std::string, names> further_phases{{"first", {"allocate", "build", "free"}},
                                                  {"managed", {"allocate", "build", "free", "migrate"}},
                                                  {"moves", {"build", "compute", "migrate"}},
                                                  {"pages", {"allocate", "free"}}};

class slow_benchmark : public testing::TestWithParam<std::string> {};
std::vector<std::string> benchmarks() {
    std::vector<std::string> all;
    for (const bench::benchmark& b : bench::all()) {
        all.push_back(b.name);
    }
    return all;
}
std::string name_of_benchmark(const testing::TestParamInfo<std::string>& one) { return one.param; }
INSTANTIATE_TEST_SUITE_P(each, slow_benchmark, testing::ValuesIn(benchmarks()), name_of_benchmark);

TEST_P(slow_benchmark, has_phases) {
    if (GetParam() == "paging") {
        GTEST_SKIP() << "the emulated device has no UVM driver";
    }
    std::vector<std::string> words = emulated({"bench", GetParam(), "--quick", "--repeats", "2"});
    if (const auto more = further_words.find(GetParam()); more != further_words.end()) {
        words.insert(words.end(), more->second.begin(), more->second.end());
    }
    const names found = phases_of(words);
    EXPECT_FALSE(found.empty());
    if (const auto least = further_phases.find(GetParam()); least != further_phases.end()) {
        EXPECT_TRUE(std::ranges::includes(found, least->second)) << testing::PrintToString(found);
    }
}

}  // namespace
}  // namespace orchard::test
