// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The expected contents and results of a `portion_tree`, computed the slow way: sets of intervals, compared in pairs.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <absl/strings/str_format.h>

#include "host/portion_tree.hpp"

namespace orchard::testing {

inline portion portion_at(std::uint32_t block, std::uint32_t first, std::uint32_t leaves) {
    return {segment_index{block}, leaf_index{first}, leaf_count{leaves}};
}

inline std::string text_of(const portion& p) {
    return absl::StrFormat("%u:[%u, +%u)", to_underlying(p.block), to_underlying(p.first), to_underlying(p.leaves));
}

class portion_model {
public:
    explicit portion_model(portion_shape shape) : shape_(shape), joined_(shape.segments), in_(shape.segments) {}

    bool join(std::uint32_t block) { return turn(block, true); }
    bool leave(std::uint32_t block) { return block < in_.size() && in_[block].empty() && turn(block, false); }

    /// Returns the leaves of a portion for which `asked` leaves are requested, 0 if there is no such portion; written
    /// independently of the tested code.
    [[nodiscard]] std::uint32_t own(std::uint32_t asked) const {
        if (shape_.policy == portion_policy::packed) {
            return asked < shape_.block_leaves ? asked : 0;
        }
        for (std::uint32_t power = 1; power < shape_.block_leaves; power *= 2) {
            if (asked != 0 && asked <= power) {
                return power;
            }
        }
        return 0;
    }
    /// Returns true if `p` could be placed now. Padded: its parent, [first, first + 2 * leaves), is a node of the tree
    /// that overlaps no other portion's parent.
    [[nodiscard]] bool allowed(const portion& p) const {
        const std::uint32_t block = to_underlying(p.block);
        const std::uint32_t first = to_underlying(p.first);
        const std::uint32_t reserved = width(p);
        if (reserved == 0 || block >= in_.size() || !joined_[block] || first + reserved > shape_.block_leaves ||
            (padded() && first % reserved != 0)) {
            return false;
        }
        return std::none_of(in_[block].begin(), in_[block].end(), [&](const portion& other) {
            return first < to_underlying(other.first) + width(other) && to_underlying(other.first) < first + reserved;
        });
    }
    /// Returns true if a portion of `asked` leaves can be placed in `block` at a multiple of `alignment`.
    [[nodiscard]] bool fits_in(std::uint32_t block, std::uint32_t asked, std::uint32_t alignment = 1) const {
        for (std::uint32_t first = 0; own(asked) != 0 && first < shape_.block_leaves; first += alignment) {
            if (allowed(portion_at(block, first, own(asked)))) {
                return true;
            }
        }
        return false;
    }
    /// Returns true if the portion can be placed in any block.
    [[nodiscard]] bool fits(std::uint32_t asked, std::uint32_t alignment = 1) const {
        for (std::uint32_t block = 0; block < in_.size(); ++block) {
            if (joined_[block] && fits_in(block, asked, alignment)) {
                return true;
            }
        }
        return false;
    }

    void add(const portion& p) { in_[to_underlying(p.block)].push_back(p); }
    /// Returns the expected result of releasing `p`; removes `p`.
    portion_release release(const portion& p) {
        if (to_underlying(p.block) >= in_.size()) {
            return portion_release::rejected;
        }
        auto& here = in_[to_underlying(p.block)];
        const auto found = std::find(here.begin(), here.end(), p);
        if (found == here.end()) {
            return portion_release::rejected;
        }
        here.erase(found);
        return here.empty() ? portion_release::emptied : portion_release::released;
    }

    [[nodiscard]] bool joined(std::uint32_t block) const { return block < in_.size() && joined_[block]; }
    [[nodiscard]] const std::vector<portion>& in(std::uint32_t block) const { return in_[block]; }
    [[nodiscard]] std::vector<portion> all() const {
        std::vector<portion> all;
        for (const auto& here : in_) {
            all.insert(all.end(), here.begin(), here.end());
        }
        return all;
    }

    /// Returns the first fault of `tree`, or an empty string: it must be valid and have these blocks, these portions
    /// and these counts.
    [[nodiscard]] std::string difference(const portion_tree& tree) const {
        if (const absl::Status s = tree.validate(); !s.ok()) {
            return s.ToString();
        }
        std::uint32_t blocks = 0;
        std::uint32_t empty = 0;
        std::uint64_t owned = 0;
        std::uint64_t portions = 0;
        for (std::uint32_t block = 0; block < in_.size(); ++block) {
            if (tree.contains(segment_index{block}) != joined_[block]) {
                return absl::StrFormat("block %u: in the space, or not", block);
            }
            blocks += joined_[block] ? 1 : 0;
            empty += joined_[block] && in_[block].empty() ? 1 : 0;
            portions += in_[block].size();
            for (const portion& p : in_[block]) {
                owned += to_underlying(p.leaves);
                if (!tree.holds(p)) {
                    return text_of(p) + " is not held";
                }
            }
        }
        if (tree.blocks() != blocks || tree.empty_blocks() != empty || tree.portions() != portions ||
            tree.owned_leaves() != owned || tree.reserved_leaves() != owned * (padded() ? 2 : 1)) {
            return absl::StrFormat("counts: %u blocks, %u empty, %u portions, %u leaves", blocks, empty, portions,
                                   owned);
        }
        return "";
    }

    [[nodiscard]] const portion_shape& shape() const { return shape_; }

private:
    [[nodiscard]] bool padded() const { return shape_.policy == portion_policy::padded; }
    [[nodiscard]] std::uint32_t width(const portion& p) const { return to_underlying(p.leaves) * (padded() ? 2 : 1); }
    bool turn(std::uint32_t block, bool in) {
        if (block >= in_.size() || joined_[block] == in) {
            return false;
        }
        joined_[block] = in;
        return true;
    }

    portion_shape shape_;
    std::vector<bool> joined_;
    std::vector<std::vector<portion>> in_;
};

}  // namespace orchard::testing
