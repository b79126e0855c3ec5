// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The classes of the members of a set, as one OR-tree for each class.

#include <bit>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <absl/status/status.h>

#include "host/word_runs.hpp"

namespace orchard {

struct portion_tree_peer;

namespace detail {

/// A set of members 0 to n - 1, each in one of the classes 1 to `classes`, or in none (class 0). It finds the lowest
/// member of the lowest class from c on. If a member's class says how much room it has, that is the tightest member
/// that fits. The portion tree uses it so: the members are VA blocks, and the class is a block's room.
///
///     node (64 children)   class 1 [0 1 0 ...]  class 2 [1 0 0 ...]  ...  class C [0 0 0 ...]
///     level 0              bit i of word c: member 64 node + i is in class c
///     level l              bit i of word c: some member below child i is in class c
///     root                 and `present_`: bit c: word c is not 0
///
/// An example with three members, of which 70 and 5,000 are in class 2 and 130 is in class 4, asked for class 2 or
/// more:
///
///     present_      bits 2 and 4      the lowest from 2 on is class 2
///     level 2       bits 0 and 1      child 0 (members 0 to 4,095)
///     level 1       bit 1 of node 0   child 1 (members 64 to 127)
///     level 0       bit 6 of node 1   member 64 + 6 = 70
///
/// The words of all classes of one node lie side by side. A member that moves from one class to another therefore
/// changes two words of one node, which are close together in memory.
///
/// Not thread-safe. Nothing is allocated after construction. 8 * classes * (1 + 1/63) / 64 bytes a member.
class class_index {
public:
    using class_function = std::function<std::uint32_t(std::uint32_t member)>;

    /// Creates a set of `members` members (0 to 2^24), all in no class; 1 <= classes <= 63, since `present_` has one
    /// bit for each class and bit 0 stands for none.
    class_index(std::uint32_t members, std::uint32_t classes);

    /// Moves `member` from its class `from` to class `to`. The caller knows the class; the index does not store it by
    /// member, and a wrong `from` corrupts the index. Cost: two words, and more at each level whose node had no other
    /// member of the class.
    void move(std::uint32_t member, std::uint32_t from, std::uint32_t to) {
        if (from == to) {
            return;
        }
        if (from != 0) {
            remove(member, from);
        }
        if (to != 0) {
            add(member, to);
        }
    }

    /// Returns the lowest member of the lowest class in [least, classes] that has any member; nothing if none has. 1 <=
    /// least. Cost: one word a level; four levels for a million members.
    [[nodiscard]] std::optional<std::uint32_t> tightest(std::uint32_t least) const;

    /// Recomputes every word, with `class_of(member)` as each member's class. Returns `InternalError`, which names the
    /// first wrong word, if there is one. Cost: O(members * classes / 64).
    [[nodiscard]] absl::Status validate(const class_function& class_of) const;

private:
    friend struct orchard::portion_tree_peer;

    /// Returns the position of the word of class `c` >= 1 in `node` of a level.
    [[nodiscard]] std::size_t at(std::uint32_t node, std::uint32_t c) const {
        return std::size_t{node} * classes_ + c - 1;
    }
    /// Sets or clears the bit of `member` in class `c`, from level 0 upwards as far as the change shows.
    void add(std::uint32_t member, std::uint32_t c);
    void remove(std::uint32_t member, std::uint32_t c);
    void make_node(std::size_t level, std::uint32_t node, const class_function& class_of,
                   std::vector<std::uint64_t>& words) const;

    std::uint32_t members_;                           ///< members 0 to `members_` - 1
    std::uint32_t classes_;                           ///< classes 1 to `classes_`
    std::uint64_t present_ = 0;                       ///< bit c: class c has a member
    std::vector<std::vector<std::uint64_t>> levels_;  ///< the last level is one node
};

}  // namespace detail
}  // namespace orchard
