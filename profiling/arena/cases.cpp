// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The table of cases. Facts about the figures of M. Winter et al., Are dynamic memory managers on GPUs slow? (PPoPP
/// 2021) are those of its artifact (GPUPeople/GPUMemManSurvey on GitHub): which figure has how many threads and bytes.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "profiling/arena/graph_kernels.cuh"
#include "profiling/arena/task.hpp"
#include "runtime/options/byte_size.hpp"

namespace orchard::arena {
namespace {

constexpr std::uint32_t sizes[] = {16, 64, 256, 1024, 4096, 8192};

std::string winter(const char* figure) { return absl::StrCat("Winter et al., PPoPP 2021, ", figure); }

/// Figures 9 a to d: 100,000 threads that allocate and free blocks of one size; 10,000 warps, a lane of each; 10,000
/// threads with sizes from 4 B to the one named.
void add_performance(std::vector<arena_case>& all) {
    for (const std::uint32_t bytes : sizes) {
        all.push_back({.name = absl::StrCat("winter_9a/", bytes),
                       .source = winter("Fig. 9a"),
                       .what = kind::malloc_time,
                       .threads = 100'000,
                       .least = bytes,
                       .most = bytes,
                       .quick = bytes == 64});
    }
    for (const std::uint32_t bytes : sizes) {
        all.push_back({.name = absl::StrCat("winter_9b/", bytes),
                       .source = winter("Fig. 9b"),
                       .what = kind::free_time,
                       .threads = 100'000,
                       .least = bytes,
                       .most = bytes,
                       .quick = bytes == 64});
    }
    for (const std::uint32_t bytes : sizes) {
        all.push_back({.name = absl::StrCat("winter_9c/", bytes),
                       .source = winter("Fig. 9c"),
                       .what = kind::malloc_time,
                       .threads = 320'000,
                       .least = bytes,
                       .most = bytes,
                       .one_lane = true,
                       .quick = bytes == 64});
    }
    for (const std::uint32_t bytes : sizes) {
        all.push_back({.name = absl::StrCat("winter_9d/", bytes),
                       .source = winter("Fig. 9d"),
                       .what = kind::malloc_time,
                       .threads = 10'000,
                       .least = 4,
                       .most = bytes,
                       .quick = bytes == 4096});
    }
    for (std::uint32_t exponent = 0; exponent <= 20; exponent += 2) {
        all.push_back({.name = absl::StrCat("winter_10/2^", exponent),
                       .source = winter("Fig. 10, 64 B"),
                       .what = kind::malloc_time,
                       .threads = 1u << exponent,
                       .least = 64,
                       .most = 64});
    }
}

/// Figures 11 a and b: addresses, and the share of the memory that can be had.
void add_memory(std::vector<arena_case>& all) {
    for (const std::uint32_t bytes : sizes) {
        all.push_back({.name = absl::StrCat("winter_11a/", bytes),
                       .source = winter("Fig. 11a"),
                       .what = kind::range,
                       .threads = 100'000,
                       .least = bytes,
                       .most = bytes,
                       .quick = bytes == 256});
    }
    for (const std::uint32_t bytes : sizes) {
        if (bytes >= 256) {  // the pointers of smaller blocks would take as much memory as the blocks
            all.push_back({.name = absl::StrCat("winter_11b/", bytes),
                           .source = winter("Fig. 11b"),
                           .what = kind::fill,
                           .threads = 100'000,
                           .least = bytes,
                           .most = bytes,
                           .quick = bytes == 4096});
        }
    }
}

/// Figures 11 c to e: threads that produce 4 to 64 B or 4 to 4,096 B of output each; `scan` is their baseline.
void add_work(std::vector<arena_case>& all) {
    struct figure {
        const char* letter;
        std::uint32_t most;
        bool write;
    };
    for (const figure& f : {figure{"11c", 64, false}, figure{"11d", 4096, false}, figure{"11e", 64, true}}) {
        for (const std::uint32_t exponent : {10u, 14u, 17u, 20u}) {
            all.push_back({.name = absl::StrCat("winter_", f.letter, "/2^", exponent),
                           .source = winter(absl::StrCat("Fig. ", f.letter).c_str()),
                           .what = kind::work,
                           .threads = 1u << exponent,
                           .least = 4,
                           .most = f.most,
                           .write = f.write,
                           .quick = f.write && exponent == 17});
        }
    }
}

/// Figures 11 f and g: the graphs of the paper are files; these have random degrees of 1 to 1,023, and an update adds
/// one neighbour for each vertex on the average.
void add_graphs(std::vector<arena_case>& all) {
    struct figure {
        const char* name;
        kind what;
        bool pressure;
    };
    for (const figure& f :
         {figure{"winter_11f", kind::graph_init, false}, figure{"winter_11g/uniform", kind::graph_update, false},
          figure{"winter_11g/pressure", kind::graph_update, true}}) {
        arena_case c{.name = f.name,
                     .source = winter(f.what == kind::graph_init ? "Fig. 11f" : "Fig. 11g"),
                     .what = f.what,
                     .threads = 1u << 18,
                     .pressure = f.pressure,
                     .rounds = 10};
        all.push_back(c);
    }
}

/// Section 4.1, and what `orchard bench` and the containers do with a heap.
void add_others(std::vector<arena_case>& all) {
    all.push_back({.name = "winter_init", .source = winter("Sec. 4.1"), .what = kind::create, .quick = true});
    all.push_back({.name = "orchard_initialise", .source = "Orchard: initialise()", .what = kind::initialise});
    struct sizes_of {
        const char* name;
        std::uint32_t least;
        std::uint32_t most;
    };
    // As many threads as an H200 runs at once: 132 multiprocessors of 2,048.
    for (const sizes_of& s : {sizes_of{"64", 64, 64}, sizes_of{"16-256", 16, 256}, sizes_of{"256-4096", 256, 4096}}) {
        all.push_back({.name = absl::StrCat("orchard_churn/", s.name),
                       .source = "Orchard: bench pages, churn",
                       .what = kind::churn,
                       .threads = 270'336,
                       .least = s.least,
                       .most = s.most,
                       .rounds = s.most > 256 ? 8u : 16u,  // the floor gives nothing back, and has 8 GiB
                       .quick = s.most == 64});
    }
    for (const sizes_of& s : {sizes_of{"16-64", 16, 64}, sizes_of{"16-1024", 16, 1024}}) {
        all.push_back({.name = absl::StrCat("orchard_lists/", s.name),
                       .source = "Orchard: lists of divergent lengths",
                       .what = kind::lists,
                       .threads = 65'536,
                       .least = s.least,
                       .most = s.most,
                       .rounds = 16,
                       .quick = s.most == 64});
    }
    all.push_back({.name = "orchard_realloc",
                   .source = "Orchard: bench realloc, small blocks",
                   .what = kind::grow,
                   .threads = 65'536,
                   .least = 16,
                   .most = 16,
                   .rounds = 7});
    all.push_back({.name = "orchard_handover/64",
                   .source = "Orchard: producer and consumer",
                   .what = kind::handover,
                   .threads = 65'536,
                   .least = 64,
                   .most = 64,
                   .rounds = 16});
}

}  // namespace

const std::vector<arena_case>& all_cases() {
    static const std::vector<arena_case> cases = [] {
        std::vector<arena_case> all;
        add_performance(all);
        add_memory(all);
        add_work(all);
        add_graphs(all);
        add_others(all);
        return all;
    }();
    return cases;
}

arena_case for_device(arena_case c, simt::device_kind device) {
    if (device == simt::device_kind::emulated) {
        c.threads = std::min(c.threads, 512u);
    }
    return c;
}

std::uint64_t largest_request(const arena_case& c) {
    switch (c.what) {
        case kind::grow: return std::uint64_t{c.least} << c.rounds;
        case kind::graph_init:
        case kind::graph_update: return graph_shape{c.threads, c.rounds, c.pressure}.largest();
        default: return c.most;
    }
}

std::uint64_t default_memory(simt::device_kind device, bool quick) {
    if (device == simt::device_kind::emulated) {
        return 128 * mib;
    }
    return quick ? 2 * gib : 8 * gib;
}

std::uint64_t memory_for(const arena_case& c, std::uint64_t memory, simt::device_kind device) {
    if (c.what != kind::fill) {
        return memory;
    }
    return std::min(memory, device == simt::device_kind::emulated ? 16 * mib : 2 * gib);
}

int default_repeats(simt::device_kind device, bool quick) {
    if (device == simt::device_kind::emulated) {
        return quick ? 3 : 10;
    }
    return quick ? 20 : 100;
}

}  // namespace orchard::arena
