// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Measurements of the driver's paging on an H200, and the accesses that were measured.

#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/uvm_model/sources.hpp"
#include "uvm/geometry/layout.hpp"

namespace orchard::testing {

/// The way in which a thread selects the places that it reads.
enum class reads { same_in_warp, stride_64k, own };
/// Where the arrays of a warp's threads lie.
enum class arrays { linear, tile_64k, tile_4k };

/// A cell of the table.
struct cell {
    const char* row;
    reads pattern;
    std::uint64_t thread_bytes;
    arrays layout;
    double milliseconds;  ///< measured
    double megabytes;     ///< 10^6 bytes that moved to the GPU, counted page by page
};

/// The measurements of `orchard bench managed` (profiling/results/managed.json); each time is the geometric mean of
/// both ways.
inline constexpr std::array<cell, 18> h200_table = {{
    {"same 512 KiB", reads::same_in_warp, 512 * kib, arrays::linear, 59.9, 536.9},
    {"same 512 KiB", reads::same_in_warp, 512 * kib, arrays::tile_64k, 24.3, 536.9},
    {"same 512 KiB", reads::same_in_warp, 512 * kib, arrays::tile_4k, 85.2, 447.9},
    {"same 4 MiB", reads::same_in_warp, 4 * mib, arrays::linear, 74.3, 536.9},
    {"same 4 MiB", reads::same_in_warp, 4 * mib, arrays::tile_64k, 28.8, 432.0},
    {"same 4 MiB", reads::same_in_warp, 4 * mib, arrays::tile_4k, 12.4, 50.5},
    {"stride 512 KiB", reads::stride_64k, 512 * kib, arrays::linear, 44.6, 536.9},
    {"stride 512 KiB", reads::stride_64k, 512 * kib, arrays::tile_64k, 29.2, 536.9},
    {"stride 512 KiB", reads::stride_64k, 512 * kib, arrays::tile_4k, 10.3, 33.6},
    {"stride 4 MiB", reads::stride_64k, 4 * mib, arrays::linear, 46.3, 536.9},
    {"stride 4 MiB", reads::stride_64k, 4 * mib, arrays::tile_64k, 34.1, 536.9},
    {"stride 4 MiB", reads::stride_64k, 4 * mib, arrays::tile_4k, 9.4, 33.6},
    {"own 512 KiB", reads::own, 512 * kib, arrays::linear, 65.5, 536.9},
    {"own 512 KiB", reads::own, 512 * kib, arrays::tile_64k, 65.2, 536.9},
    {"own 512 KiB", reads::own, 512 * kib, arrays::tile_4k, 65.5, 536.9},
    {"own 4 MiB", reads::own, 4 * mib, arrays::linear, 73.6, 536.9},
    {"own 4 MiB", reads::own, 4 * mib, arrays::tile_64k, 68.6, 536.9},
    {"own 4 MiB", reads::own, 4 * mib, arrays::tile_4k, 75.0, 536.9},
}};

/// Rounds of one warp, in each of which its first lanes read one page each, and the time of a round: `orchard bench
/// paging` (profiling/results/paging.json).
struct rounds {
    const char* what;
    std::uint32_t lanes;
    std::uint64_t apart;  ///< bytes from lane to lane
    std::uint64_t bytes;  ///< from round to round
    std::uint64_t count;
    double microseconds;  ///< measured, for one
    double moved_kib;     ///< likewise
};

inline constexpr std::array<rounds, 5> h200_rounds = {{
    {"a page", 1, 0, 2 * mib, 64, 29.6, 64},
    {"a page of each of 16 VA blocks", 16, 2 * mib, 32 * mib, 16, 288, 1024},
    {"16 pages of a VA block, every other region", 16, 128 * kib, 2 * mib, 64, 165.1, 1024},
    {"16 pages of a region", 16, 4 * kib, 2 * mib, 64, 32.2, 64},
    {"a page of each region of a VA block", 32, 64 * kib, 2 * mib, 64, 116.3, 2048},
}};

/// 512 MiB in arrays of `thread_bytes`, one a thread; each thread reads 4 bytes 100 times.
class table_source final : public uvm_model::access_source {
public:
    static constexpr std::uint64_t all_bytes = 512 * mib;
    static constexpr std::uint64_t reads_a_thread = 100;

    table_source(const cell& c, std::uint64_t seed) : cell_{c} {
        std::mt19937_64 random(seed);
        const std::uint64_t per_warp = reads_a_thread * (c.pattern == reads::own ? max_lanes : 1);
        for (std::uint64_t i = 0; i < warps() * per_warp; ++i) {
            offsets_.push_back(random() % c.thread_bytes / 4 * 4);
        }
    }

    [[nodiscard]] std::uint64_t bytes() const override { return all_bytes; }
    [[nodiscard]] std::uint32_t warps() const override {
        return static_cast<std::uint32_t>(all_bytes / cell_.thread_bytes / max_lanes);
    }
    std::size_t step(std::uint32_t warp, std::uint64_t index, uvm_model::step_buffer out) override {
        if (index >= reads_a_thread) {
            return 0;
        }
        const std::uint64_t base = warp * max_lanes * cell_.thread_bytes;
        for (std::uint32_t lane = 0; lane < max_lanes; ++lane) {
            out[lane] = {base + place(lane, offset(warp, index, lane)), static_cast<std::uint8_t>(lane),
                         access_kind::read};
        }
        return max_lanes;
    }

private:
    [[nodiscard]] std::uint64_t offset(std::uint32_t warp, std::uint64_t index, std::uint32_t lane) const {
        const std::uint64_t read = warp * reads_a_thread + index;
        switch (cell_.pattern) {
            case reads::same_in_warp: return offsets_[read];
            case reads::stride_64k: return index * big_page_bytes % cell_.thread_bytes;
            case reads::own: return offsets_[read * max_lanes + lane];
        }
        return 0;
    }
    [[nodiscard]] std::uint64_t place(std::uint32_t lane, std::uint64_t at) const {
        if (cell_.layout == arrays::linear) {
            return lane * cell_.thread_bytes + at;
        }
        return interleaved_offset(cell_.layout == arrays::tile_64k ? tile::k64 : tile::k4, max_lanes, lane, at);
    }

    cell cell_;
    std::vector<std::uint64_t> offsets_;
};

/// A run of the cell with everything on the CPU before.
inline uvm_model::result run_cell(const cell& c, std::uint64_t seed) {
    uvm_model::paging_model model = model_of(table_source::all_bytes, std::nullopt, "h200");
    EXPECT_TRUE(model.populate({0, table_source::all_bytes}, uvm_model::processor::cpu).ok());
    table_source source(c, seed);
    return run(model, source);
}

/// A run of the rounds, likewise.
inline uvm_model::result run_rounds(const rounds& r) {
    uvm_model::paging_model model = model_of(table_source::all_bytes, std::nullopt, "h200");
    EXPECT_TRUE(model.populate({0, table_source::all_bytes}, uvm_model::processor::cpu).ok());
    computed_source source(table_source::all_bytes, 1, r.count, [&r](auto, std::uint64_t round, std::uint32_t lane) {
        return lane < r.lanes ? std::optional<std::uint64_t>(round * r.bytes + lane * r.apart) : std::nullopt;
    });
    return run(model, source);
}

}  // namespace orchard::testing
