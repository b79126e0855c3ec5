// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The model that a heap is compared with: the allocated blocks, and the results that requests may and must have.

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/heap/heap.hpp"
#include "tests/properties/program.hpp"

namespace orchard::test {

class heap_model {
public:
    explicit heap_model(heap& on);

    /// Turns a step into requests, for which it picks the blocks that are meant: no block twice.
    std::vector<request> plan(const step& s);

    /// Records the answers to the requests. Returns the first error; empty if there is none.
    std::string judge(const step& s, const std::vector<request>& requests, const std::vector<answer>& answers);

    /// Compares the books; when no kernel runs.
    std::string compare(const statistics& counted) const;

    [[nodiscard]] const std::vector<held_block>& live() const { return live_; }
    /// Returns the number of requests that the heap had to serve in any state.
    [[nodiscard]] std::uint64_t certain() const { return certain_; }
    /// Requests that were answered with null for want of memory.
    [[nodiscard]] std::uint64_t nulls() const { return nulls_; }

private:
    /// The sum of the requests of one step.
    struct demand {
        std::vector<std::uint64_t> pages;  ///< of each class
        std::uint64_t chunk_segments = 0;  ///< needed if each lane had a chunk of its own
        std::uint64_t largest_chunk = 0;   ///< segments
        std::uint64_t impossible = 0;      ///< lanes whose request no heap of this size can serve
        std::uint64_t lanes = 0;           ///< lanes that request memory
    };
    [[nodiscard]] demand demand_of(const std::vector<request>& requests) const;
    [[nodiscard]] bool must_serve_all(const step& s, const demand& d) const;
    [[nodiscard]] std::vector<bool> segments_in_use() const;
    [[nodiscard]] std::vector<std::uint64_t> spare_pages() const;
    [[nodiscard]] std::string judge_one(const request& r, const answer& a, std::uint64_t origin, bool must_serve);
    void take_out(const held_block& b);
    [[nodiscard]] std::string judge_null(const request& r, bool must_serve);
    [[nodiscard]] std::string check_overlap() const;

    std::uint64_t base_;
    std::uint64_t segments_;
    std::uint64_t cache_target_;
    std::vector<held_block> live_;
    std::vector<held_block> freed_of_chunks_;  // blocks whose chunk may have other live blocks
    std::uint64_t launches_ = 0;
    std::uint64_t stamps_ = 0;
    std::uint64_t certain_ = 0;
    // The expected statistics.
    std::uint64_t allocations_ = 0;
    std::uint64_t allocated_bytes_ = 0;
    std::uint64_t nulls_ = 0;
    std::uint64_t hidden_nulls_ = 0;  // upper bound: a realloc that shrinks in place because no smaller block is free
    std::uint64_t reallocs_ = 0;
    std::uint64_t moved_ = 0;
    std::uint64_t wrong_frees_ = 0;
};

}  // namespace orchard::test
