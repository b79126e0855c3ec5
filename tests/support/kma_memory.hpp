// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A small KMA in host memory, for simulations.

#include <cstdint>
#include <string>
#include <vector>

#include "device/published/kma/kma_ref.cuh"
#include "device/simt/explore/simulation.hpp"

namespace orchard::rig {

/// Superblocks and words of KMA, all memory free. It lives as long as the simulation runs.
class kma_memory {
public:
    kma_memory(simt::explore::simulation& s, std::uint32_t superblocks, std::uint32_t log_bytes)
        : memory_((std::uint64_t{superblocks} << log_bytes) / 8 + 1),
          next_(kma_ref::nodes(superblocks, log_bytes)),
          values_(next_.size()),
          state_(1),
          ref(aligned(), superblocks, log_bytes, state_.data(), next_.data(), values_.data()) {
        for (std::uint32_t i = 0; i < next_.size(); ++i) {
            ref.make_part(i);
        }
        for (std::uint32_t i = 0; i < superblocks; ++i) {
            s.name_words(aligned() + (std::uint64_t{i} << log_bytes), 16, "superblock " + std::to_string(i), 8);
        }
        s.name_words(next_.data(), 8 * next_.size(), "next", 8);
        s.name_words(state_.data(), sizeof(kma_state), "state", 8);
    }

    /// Returns what the superblocks are used for, while no lane runs.
    [[nodiscard]] kma_usage usage() const {
        kma_usage sum{};
        for (std::uint32_t i = 0; i < ref.superblocks(); ++i) {
            ref.count(i, &sum);
        }
        return sum;
    }
    /// Returns the number of classes that have an active superblock, while no lane runs.
    [[nodiscard]] std::uint32_t entries() const {
        std::uint32_t n = 0;
        for (const auto& entry : state_.front().active) {
            n += entry.load<simt::order::relaxed>() != 0 ? 1 : 0;
        }
        return n;
    }
    static std::uint32_t get(const kma_usage::word& w) { return w.load<simt::order::relaxed>(); }

private:
    /// Returns the beginning of the superblocks, a multiple of 16 B.
    char* aligned() {
        return reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(memory_.data()) + 15) / 16 * 16);
    }

    std::vector<std::uint64_t> memory_;
    std::vector<device::superblock_queues::word> next_;
    std::vector<device::superblock_queues::index_word> values_;
    std::vector<kma_state> state_;

public:
    kma_ref ref;
};

}  // namespace orchard::rig
