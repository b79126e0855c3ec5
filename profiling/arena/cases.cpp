// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The table of cases. Facts about the figures of M. Winter et al., Are dynamic memory managers on GPUs slow? (PPoPP
/// 2021) are those of its artifact (GPUPeople/GPUMemManSurvey on GitHub): which figure has how many threads and bytes.
/// That of Gallatin's churn is its own (saltsystemslab/gallatin), and the others are in their papers.

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "profiling/arena/graph_kernels.cuh"
#include "profiling/arena/task.hpp"
#include "runtime/options/byte_size.hpp"

namespace orchard::arena {
namespace {

constexpr std::uint32_t sizes[] = {16, 64, 256, 1024, 4096, 8192};

std::string winter(const char* figure) { return absl::StrCat("Winter et al., PPoPP 2021, ", figure); }
std::string random_walk(const char* figure) { return absl::StrCat("Pham et al., ICS 2022, ", figure); }

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
                       .lanes = 1,
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

/// Figures 11 a and b: addresses, and the share of the memory that can be had. Figure 3 of the paper on Ouroboros: the
/// share if half of the blocks are freed between the requests.
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
    // The pointers of smaller blocks would take as much memory as the blocks.
    for (const std::uint32_t bytes : {256u, 384u, 768u, 1024u, 1536u, 3072u, 4096u, 6144u, 8192u}) {
        if (std::has_single_bit(bytes)) {
            all.push_back({.name = absl::StrCat("winter_11b/", bytes),
                           .source = winter("Fig. 11b"),
                           .what = kind::fill,
                           .threads = 100'000,
                           .least = bytes,
                           .most = bytes,
                           .quick = bytes == 4096});
        } else {
            all.push_back({.name = absl::StrCat("rw_11/", bytes),
                           .source = random_walk("Fig. 11: sizes that are no power of two"),
                           .what = kind::fill,
                           .threads = 100'000,
                           .least = bytes,
                           .most = bytes});
        }
    }
    all.push_back({.name = "ouroboros_3/16",
                   .source = "Winter et al., ICS 2020, Fig. 3: 50 % growth",
                   .what = kind::growth,
                   .threads = 100'000,
                   .least = 16,
                   .most = 16});
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
    const auto one_size = [&](const char* name, const char* source, kind what) {
        all.push_back({.name = name, .source = source, .what = what, .threads = 100'000, .least = 64, .most = 64});
    };
    // Up to 512 B there are 16 classes, two lanes of a warp in each; up to 8 KiB 32, each lane in its own.
    for (const std::uint32_t most : {512u, 8192u}) {
        for (const kind what : {kind::malloc_time, kind::free_time}) {
            all.push_back(
                {.name = absl::StrCat("orchard_classes/", most, what == kind::free_time ? "/free" : "/malloc"),
                 .source = "Orchard: bench pages, each its class",
                 .what = what,
                 .threads = 100'000,
                 .least = 16,
                 .most = most,
                 .by_lane = true});
        }
    }
    one_size("orchard_streams/64", "Orchard: two streams at once", kind::streams);
    one_size("orchard_beside/64", "Orchard: another process on the same device", kind::beside);
    one_size("winter_registers/malloc", "Winter et al., PPoPP 2021, Sec. 4.1", kind::malloc_registers);
    one_size("winter_registers/free", "Winter et al., PPoPP 2021, Sec. 4.1", kind::free_registers);
}

/// M. Pham et al.: Fig. 1, atomic additions to one word; 7, pages of 256 B of which few are free (with 2^20 pages; the
/// numbers of steps are those of `orchard bench pages`); 8 to 10, blocks that are not freed before the next ones.
void add_random_walk(std::vector<arena_case>& all) {
    for (const std::uint32_t exponent : {10u, 14u, 17u, 20u}) {
        all.push_back({.name = absl::StrCat("rw_1/2^", exponent),
                       .source = random_walk("Fig. 1"),
                       .what = kind::atomics,
                       .threads = 1u << exponent});
    }
    for (const std::uint32_t per_mille : {500u, 100u, 10u, 5u}) {
        for (const std::uint32_t threads : {1000u, 2500u}) {
            all.push_back({.name = absl::StrCat("rw_7/", per_mille / 10.0, "%/", threads),
                           .source = random_walk("Fig. 7"),
                           .what = kind::nearly_full,
                           .threads = threads,
                           .least = 256,
                           .most = 256,
                           .free_per_mille = per_mille});
        }
    }
    const auto fresh = [&](std::string name, const char* figure, std::uint32_t threads, std::uint32_t least,
                           std::uint32_t most, kind what = kind::malloc_time) {
        all.push_back({.name = std::move(name),
                       .source = random_walk(figure),
                       .what = what,
                       .threads = threads,
                       .least = least,
                       .most = most,
                       .fresh = true});
    };
    for (const std::uint32_t bytes : {16u, 512u, 8192u}) {
        for (const std::uint32_t exponent : {10u, 14u, 17u, 20u}) {
            if (bytes < 8192 || exponent < 20) {  // as many would be all of the memory
                fresh(absl::StrCat("rw_8/", bytes, "/2^", exponent), "Fig. 8", 1u << exponent, bytes, bytes);
            }
        }
    }
    fresh("rw_8_free/512/2^20", "Fig. 8", 1u << 20, 512, 512, kind::free_time);
    for (const std::uint32_t bytes : sizes) {
        fresh(absl::StrCat("rw_9/", bytes), "Fig. 9", 100'000, bytes, bytes);
    }
    for (const std::uint32_t most : {64u, 1024u, 8192u}) {
        fresh(absl::StrCat("rw_10/", most), "Fig. 10", 100'000, 4, most);
    }
}

/// X. Huang et al.: Fig. 2, a million threads that allocate an int, write it and free it, so many lanes of a warp. 5
/// and 6 are the same without and with queues: the allocators `xmalloc_no_queues`, `xmalloc_1_queue` and `xmalloc`.
void add_xmalloc(std::vector<arena_case>& all) {
    for (std::uint32_t lanes = 1; lanes <= simt::warp_size; lanes *= 2) {
        all.push_back({.name = absl::StrCat("xmalloc_2/", lanes),
                       .source = "Huang et al., 2013, Fig. 2, 5 and 6",
                       .what = kind::churn,
                       .threads = (1u << 20) / lanes * simt::warp_size,
                       .least = 4,
                       .most = 4,
                       .lanes = lanes});
    }
}

/// R. Spliet: Fig. 6.1, one thread that allocates and frees in a loop; 6.2, 100 rounds of many threads: all ask for
/// 4 B; or half for 4 and half for 8 B, and one for 4,000; or for 4 to 64 B (1 to 16 there: here a word is written into
/// each block), and one for 4,000. 6.3 to 6.6, ten blocks of a thread that stay.
void add_kma(std::vector<arena_case>& all) {
    for (const std::uint32_t rounds : {100u, 10'000u}) {
        all.push_back({.name = absl::StrCat("kma_6.1/", rounds),
                       .source = "Spliet, 2013, Fig. 6.1",
                       .what = kind::churn,
                       .threads = 1,
                       .least = 4,
                       .most = 4,
                       .rounds = rounds});
    }
    struct variance {
        const char* name;
        std::uint32_t most;
    };
    for (const variance& v : {variance{"none", 4}, variance{"low", 8}, variance{"high", 64}}) {
        for (const std::uint32_t threads : {512u, 4608u}) {
            all.push_back({.name = absl::StrCat("kma_6.2/", v.name, "/", threads),
                           .source = "Spliet, 2013, Fig. 6.2",
                           .what = kind::churn,
                           .threads = threads,
                           .least = 4,
                           .most = v.most,
                           .of_first = v.most == 4 ? 0u : 4000u,
                           .powers = true,
                           .rounds = 100});
        }
    }
    for (const std::uint32_t threads : {128u, 1024u, 4096u, 16'384u, 32'768u}) {
        all.push_back({.name = absl::StrCat("kma_6.3/", threads),
                       .source = "Spliet, 2013, Fig. 6.3 to 6.6",
                       .what = kind::keep,
                       .threads = threads,
                       .least = 4,
                       .most = 8,
                       .powers = true,
                       .rounds = 10});
    }
}

/// Y. Zhang et al.: Fig. 10a, 16,384 threads with sizes from 2^n to 2^(n+1) B, up to 2^22, which is 48 GiB; 10b, as
/// many threads that allocate and free 1 to 256 KiB at random (four blocks of a thread at most, twelve there); 11, 1
/// KiB and 8 KiB by the number of threads.
void add_align_malloc(std::vector<arena_case>& all) {
    const auto zhang = [](const char* figure) { return absl::StrCat("Zhang et al., TPDS 2025, Fig. ", figure); };
    for (const std::uint32_t exponent : {6u, 9u, 11u, 12u, 13u, 14u, 15u, 16u, 17u, 18u, 19u, 20u, 21u}) {
        all.push_back({.name = absl::StrCat("align_10a/2^", exponent),
                       .source = zhang("10a"),
                       .what = kind::malloc_time,
                       .threads = 16'384,
                       .least = 1u << exponent,
                       .most = 2u << exponent});
    }
    all.push_back({.name = "align_10b",
                   .source = zhang("10b"),
                   .what = kind::turn_over,
                   .threads = 16'384,
                   .least = 1024,
                   .most = 256 * 1024,
                   .rounds = 4});
    for (const std::uint32_t bytes : {1024u, 8192u}) {
        for (const std::uint32_t exponent : {7u, 10u, 12u, 15u, 18u}) {
            all.push_back({.name = absl::StrCat("align_11/", bytes, "/2^", exponent),
                           .source = zhang("11"),
                           .what = kind::malloc_time,
                           .threads = 1u << exponent,
                           .least = bytes,
                           .most = bytes});
        }
    }
}

/// H. McCoy et al.: rounds of blocks of random sizes, and graphs whose rows double.
void add_gallatin(std::vector<arena_case>& all) {
    all.push_back({.name = "gallatin_churn/16-4096",
                   .source = "McCoy et al., PPoPP 2024, churn",
                   .what = kind::churn,
                   .threads = 1u << 20,
                   .least = 16,
                   .most = 4096,
                   .rounds = 2});
    all.push_back({.name = "gallatin_expansion",
                   .source = "McCoy et al., PPoPP 2024, graph expansion",
                   .what = kind::graph_expand,
                   .threads = 1u << 18,
                   .rounds = 8});
}

}  // namespace

const std::vector<arena_case>& all_cases() {
    static const std::vector<arena_case> cases = [] {
        std::vector<arena_case> all;
        add_performance(all);
        add_memory(all);
        add_work(all);
        add_graphs(all);
        add_random_walk(all);
        add_xmalloc(all);
        add_kma(all);
        add_align_malloc(all);
        add_gallatin(all);
        add_others(all);
        return all;
    }();
    return cases;
}

arena_case for_device(arena_case c, simt::device_kind device) {
    if (device == simt::device_kind::emulated) {
        if (c.what == kind::nearly_full) {
            c.threads /= 32;  // the memory is a sixteenth
        }
        // One block of a warp's lanes at least, whatever the size.
        const std::uint64_t blocks = c.what == kind::turn_over ? c.rounds : 1;
        const std::uint64_t fitting = 16 * mib / std::max<std::uint64_t>(largest_request(c) * blocks, 1);
        c.threads = std::min({c.threads, 512u, static_cast<std::uint32_t>(std::max<std::uint64_t>(fitting, 32))});
    }
    return c;
}

std::uint64_t largest_request(const arena_case& c) {
    switch (c.what) {
        case kind::grow: return std::uint64_t{c.least} << c.rounds;
        case kind::graph_init:
        case kind::graph_update:
        case kind::graph_expand: return graph_of(c).largest(c.rounds);
        default: return std::max(c.most, c.of_first);
    }
}

std::uint64_t default_memory(simt::device_kind device, bool quick) {
    if (device == simt::device_kind::emulated) {
        return 128 * mib;
    }
    return quick ? 2 * gib : 8 * gib;
}

std::uint64_t memory_for(const arena_case& c, std::uint64_t memory, simt::device_kind device) {
    const bool grows = c.what == kind::growth;
    if (!grows && c.what != kind::fill && c.what != kind::nearly_full) {
        const std::uint64_t most = c.what == kind::malloc_time ? for_device(c, device).threads * largest_request(c) : 0;
        return most >= memory && memory >= default_memory(device, false) ? most + most / 4 : memory;
    }
    if (device == simt::device_kind::emulated) {
        return std::min(memory, grows ? 4 * mib : 16 * mib);  // a launch there leaves 4 KiB
    }
    return std::min(memory, c.what == kind::nearly_full ? 256 * mib : 2 * gib);
}

int default_repeats(simt::device_kind device, bool quick) {
    if (device == simt::device_kind::emulated) {
        return quick ? 3 : 10;
    }
    return quick ? 20 : 100;
}

}  // namespace orchard::arena
