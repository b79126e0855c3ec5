// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The names of the algorithms that find free pages. docs/random_walk.md compares them; get_page.cuh and allocate.cuh
/// choose by them. Host code only, so that host sources may include it.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace orchard::device {

/// The policies, with their names in the paper (M. Pham et al., ICS 2022), except the first.
enum class page_policy : std::uint32_t {
    default_walk,  ///< Orchard's own: one atomic for a group, hints, reservations (device/small/small_path.cuh)
    rw,            ///< basic random walk: one page a step
    rw_bm32,       ///< random walk over a bitmap, 32 pages a step
    rw_bm64,       ///< random walk over a bitmap, 64 pages a step
    corw,          ///< collaborative random walk, without locks
    corw_locked,   ///< collaborative random walk, with the LockMap
    rw_malloc,     ///< runs of consecutive units
};

/// A policy and its name on the command line.
struct page_policy_name {
    page_policy policy;
    std::string_view name;
    std::string_view help;
};

/// All policies, in the order of the enumeration: `name_of` uses the value as an index.
inline constexpr std::array<page_policy_name, 7> page_policy_names{{
    {page_policy::default_walk, "default", "one atomic for what a group of lanes needs, at its home first"},
    {page_policy::rw, "rw", "basic random walk: each lane, a page a step"},
    {page_policy::rw_bm32, "rw_bm32", "random walk over a bitmap: each lane, 32 pages a step"},
    {page_policy::rw_bm64, "rw_bm64", "random walk over a bitmap: each lane, 64 pages a step"},
    {page_policy::corw, "corw", "collaborative random walk: lanes share the pages they find"},
    {page_policy::corw_locked, "corw_locked", "collaborative random walk with a lock bit for each word"},
    {page_policy::rw_malloc, "rw_malloc", "random walk for runs of consecutive units of any length"},
}};

/// Returns the policy's name on the command line, for any value of the enumeration.
constexpr std::string_view name_of(page_policy p) { return page_policy_names[static_cast<std::size_t>(p)].name; }

/// Returns the policy with that name; nothing for any other text.
constexpr std::optional<page_policy> page_policy_of(std::string_view name) {
    for (const page_policy_name& n : page_policy_names) {
        if (n.name == name) {
            return n.policy;
        }
    }
    return std::nullopt;
}

}  // namespace orchard::device
