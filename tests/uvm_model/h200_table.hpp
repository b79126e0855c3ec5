// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The experiment of docs/limits.md, "Layout in managed memory": its accesses, and what was measured.

#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/uvm_model/sources.hpp"
#include "uvm/layout.hpp"

namespace orchard::testing {

/// How a thread picks the places that it reads.
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
    double megabytes;     ///< counted, 10^6 bytes to the GPU
};

inline constexpr std::array<cell, 15> h200_table = {{
    {"same 512 KB", reads::same_in_warp, 512 * kib, arrays::linear, 66, 156},
    {"same 512 KB", reads::same_in_warp, 512 * kib, arrays::tile_64k, 48, 227},
    {"same 512 KB", reads::same_in_warp, 512 * kib, arrays::tile_4k, 78, 453},
    {"same 4 MB", reads::same_in_warp, 4 * mib, arrays::linear, 83, 447},
    {"same 4 MB", reads::same_in_warp, 4 * mib, arrays::tile_64k, 61, 234},
    {"same 4 MB", reads::same_in_warp, 4 * mib, arrays::tile_4k, 17, 50},
    {"stride 512 KB", reads::stride_64k, 512 * kib, arrays::linear, 46, 486},
    {"stride 512 KB", reads::stride_64k, 512 * kib, arrays::tile_64k, 48, 211},
    {"stride 512 KB", reads::stride_64k, 512 * kib, arrays::tile_4k, 9, 34},
    {"stride 4 MB", reads::stride_64k, 4 * mib, arrays::linear, 36, 537},
    {"stride 4 MB", reads::stride_64k, 4 * mib, arrays::tile_64k, 71, 182},
    {"stride 4 MB", reads::stride_64k, 4 * mib, arrays::tile_4k, 12, 34},
    {"own 4 MB", reads::own, 4 * mib, arrays::linear, 74, 457},
    {"own 4 MB", reads::own, 4 * mib, arrays::tile_64k, 73, 439},
    {"own 4 MB", reads::own, 4 * mib, arrays::tile_4k, 74, 442},
}};

/// 512 MiB in arrays of `thread_bytes`, one a thread; each thread reads 4 bytes 100 times.
class table_source final : public uvm_model::access_source {
public:
    static constexpr std::uint64_t all_bytes = 512 * mib;
    static constexpr std::uint64_t reads_a_thread = 100;

    table_source(const cell& c, std::uint64_t seed) : cell_{c} {
        std::mt19937_64 random(seed);
        const std::uint64_t per_warp = reads_a_thread * (c.pattern == reads::own ? most_lanes : 1);
        for (std::uint64_t i = 0; i < warps() * per_warp; ++i) {
            offsets_.push_back(random() % c.thread_bytes / 4 * 4);
        }
    }

    [[nodiscard]] std::uint64_t bytes() const override { return all_bytes; }
    [[nodiscard]] std::uint32_t warps() const override {
        return static_cast<std::uint32_t>(all_bytes / cell_.thread_bytes / most_lanes);
    }
    std::size_t step(std::uint32_t warp, std::uint64_t index, uvm_model::step_buffer out) override {
        if (index >= reads_a_thread) {
            return 0;
        }
        const std::uint64_t base = warp * most_lanes * cell_.thread_bytes;
        for (std::uint32_t lane = 0; lane < most_lanes; ++lane) {
            out[lane] = {base + place(lane, offset(warp, index, lane)), static_cast<std::uint8_t>(lane),
                         access_kind::read};
        }
        return most_lanes;
    }

private:
    [[nodiscard]] std::uint64_t offset(std::uint32_t warp, std::uint64_t index, std::uint32_t lane) const {
        const std::uint64_t read = warp * reads_a_thread + index;
        switch (cell_.pattern) {
            case reads::same_in_warp: return offsets_[read];
            case reads::stride_64k: return index * big_page_bytes % cell_.thread_bytes;
            case reads::own: return offsets_[read * most_lanes + lane];
        }
        return 0;
    }
    [[nodiscard]] std::uint64_t place(std::uint32_t lane, std::uint64_t at) const {
        if (cell_.layout == arrays::linear) {
            return lane * cell_.thread_bytes + at;
        }
        return interleaved_offset(cell_.layout == arrays::tile_64k ? tile::k64 : tile::k4, most_lanes, lane, at);
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

}  // namespace orchard::testing
