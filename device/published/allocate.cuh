// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Small requests of a heap whose `page_policy` is one of the published algorithms: the walk over the slabs of the
/// request's class, and a new slab if a sweep has found all of them full.
///
///     allocate_published     group the lanes by heap and class, count them
///       find_published       until every lane has a page, or the reason why there is none:
///         walk_by_policy       the walk of the policy, with its sweep
///         grow_published       one slab more, or the wait for another group's (slab_growth.cuh)
///
/// Kernels that use `heap_ref` contain no code of this. A kernel needs the sum of the registers of functions that call
/// each other, and these algorithms are written to follow the paper, not to save registers.

#include <type_traits>

#include "device/published/chosen_policy.cuh"
#include "device/published/get_page.cuh"
#include "device/published/slab_growth.cuh"
#include "device/published/units.cuh"

namespace orchard::device {

/// The request of one group. `group` shrinks to the lanes without a page while the search goes on.
struct published_request {
    lane_mask group = 0;
    std::uint32_t slab_class = 0;
    std::uint32_t units = 1;  ///< units that this lane wants
};

/// Returns a page in the slabs of a class for the calling lane, or none (GETPAGE in the paper); for `rw_malloc` the
/// first of `r.units` units. All lanes of a converged group call it; lanes may return at different times.
///
/// The seed is the clock and the thread's number. Lanes of a warp thus walk differently, and so does each lane in its
/// next request.
template <page_policy P>
ORCHARD_NOINLINE random_walk::page_number walk_slabs(const published_view& h, const published_request& r) {
    random_walk::walker<> w;
    w.random = random_walk::random_bits(std::uint64_t{simt::noise()} << 32 ^ simt::position().global_thread());
    if constexpr (P == page_policy::rw_malloc) {
        return random_walk::rw_malloc::get_units(random_walk::run_slab_space(h), r.group, r.units, w);
    } else if constexpr (P == page_policy::corw_locked) {
        return random_walk::get_page<P>(random_walk::locked_slab_space(h, r.slab_class), r.group, w);
    } else {
        return random_walk::get_page<P>(random_walk::slab_space(h, r.slab_class), r.group, w);
    }
}

/// Searches with the heap's policy. With a fixed policy, the other algorithms are not compiled. Returns as
/// `walk_slabs`.
template <class Policy>
ORCHARD_INLINE random_walk::page_number walk_by_policy(const published_view& h, const published_request& r) {
    random_walk::page_number page = random_walk::no_page;
    const auto walk_if = [&]<page_policy P>(std::integral_constant<page_policy, P>) {
        if constexpr (Policy::may_be(P)) {
            if (Policy::of(h) == P) {
                page = walk_slabs<P>(h, r);
            }
        }
    };
    walk_if(std::integral_constant<page_policy, page_policy::rw>());
    walk_if(std::integral_constant<page_policy, page_policy::rw_bm32>());
    walk_if(std::integral_constant<page_policy, page_policy::rw_bm64>());
    walk_if(std::integral_constant<page_policy, page_policy::corw>());
    walk_if(std::integral_constant<page_policy, page_policy::corw_locked>());
    walk_if(std::integral_constant<page_policy, page_policy::rw_malloc>());
    return page;
}

/// Returns a page (or the first unit of a run) for each lane of the request's group; none, with the reason, if there is
/// none. All lanes of a converged group call it. `r.group` is afterwards the lanes that the last walk left without a
/// page.
///
/// Errors: closing, at once; those of `grow_published`; service_not_responding after 1.5 times the mailbox's deadline.
/// Cost: a walk; a slab and another walk as often as the pages are used up by other groups.
template <class Policy>
ORCHARD_NOINLINE random_walk::page_number find_published(const published_view& h, published_request& r,
                                                         failure_reason* why) {
    auto& head = h.state->slabs[r.slab_class];
    const std::uint64_t began = from_leader(r.group, simt::clock_ns());
    bool failed = from_leader(r.group, is_closing(h) ? 1u : 0u) != 0;
    *why = failed ? failure_reason::closing : failure_reason::none;
    if (failed) {
        return random_walk::no_page;
    }
    for (;;) {
        // Read before the walk: a slab that is added during the walk must count as not seen.
        const std::uint32_t seen = from_leader(r.group, h.grown[r.slab_class].load<order::relaxed>());
        random_walk::page_number page = random_walk::no_page;
        if (from_leader(r.group, head.count.load<order::relaxed>()) != 0) {
            page = walk_by_policy<Policy>(h, r);
        }
        // Joins the lanes, which may leave the walk one by one. Those with a page return; the others go on as a smaller
        // group.
        r.group = simt::ballot(r.group, page == random_walk::no_page);
        if (page != random_walk::no_page || failed) {
            return page;
        }
        *why = grow_published(h, r.group, r.slab_class, seen);
        if (*why == failure_reason::closing) {
            return page;
        }
        const bool late = simt::clock_ns() - began > h.mailbox.patience_ns();
        if (*why == failure_reason::none && from_leader(r.group, late ? 1u : 0u) != 0) {
            *why = failure_reason::service_not_responding;  // other groups always take the pages first
        }
        // One walk more after a failure: pages may have been freed, or a slab added, since the sweep of this group.
        failed = *why != failure_reason::none;
    }
}

/// Returns a block of up to `largest_page_bytes` for the calling lane, or null with the reason, which the caller
/// records. Any lanes call it. Converged lanes that ask for the same class are served together. With `rw_malloc`, all
/// sizes are served together, and a block is aligned to its units, or to `alignment` if that is greater. Cost:
/// `find_published`, an atomic by the leader for the counts; for a run of units two more by each lane.
template <class Policy>
ORCHARD_NOINLINE void* allocate_published(const published_view& h, std::uint64_t bytes, std::uint64_t alignment,
                                          std::uint32_t page_class, failure_reason* why) {
    const lane_mask here = simt::converge();
    const bool runs = Policy::of(h) == page_policy::rw_malloc;
    const std::uint32_t slab_class = runs ? h.unit_class : page_class;
    published_request r{simt::match(here, reinterpret_cast<std::uintptr_t>(h.state) + slab_class), slab_class, 1};
    auto& counts = h.state->pages[heap_view::own_shard()][slab_class];
    if (is_leader(r.group)) {
        counts.groups[simt::popcount(r.group) - 1].fetch_add<order::relaxed>(1);
    }
    if (runs) {
        r.units = units_for(class_bytes(slab_class), bytes, alignment);
    }
    random_walk::page_number page = find_published<Policy>(h, r, why);
    if (page == random_walk::no_page) {
        counts.nulls.fetch_add<order::relaxed>(1);
        return nullptr;
    }
    if (!runs) {
        return random_walk::slab_space(h, slab_class).address(page);
    }
    const random_walk::run_slab_space space(h);
    // The run has room for the block at any alignment (`units_for`); the units before and behind the block go back.
    if (alignment > space.unit_bytes()) {
        page = trim_units(space, page, r.units, bytes, alignment);
    }
    mark_begin(space, page);
    // `page_counts` counts one unit for each lane of the group; this adds the rest.
    h.add(counter::allocated_bytes, (units_for(space.unit_bytes(), bytes, 0) - 1) * space.unit_bytes());
    return space.address(page);
}

}  // namespace orchard::device
