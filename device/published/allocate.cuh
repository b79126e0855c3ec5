// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Small requests of a heap whose `page_policy` is one of the published algorithms: the walk over the slabs of the
/// request's class, and a new slab if a sweep has found all of them full.
///
/// Kernels that use `heap_ref` contain no code of this. A kernel needs the sum of the registers of functions that call
/// each other, and these algorithms are written to follow the paper, not to save registers.

#include <type_traits>

#include "device/published/chosen_policy.cuh"
#include "device/published/get_page.cuh"
#include "device/published/slab_growth.cuh"
#include "device/published/units.cuh"

namespace orchard::device {

/// The request of one group.
struct published_request {
    lane_mask group = 0;
    std::uint32_t slab_class = 0;
    std::uint32_t units = 1;  ///< units that this lane wants
};

/// Searches a page in the slabs of a class (GETPAGE in the paper). All lanes of a converged group call it.
template <page_policy P>
ORCHARD_NOINLINE random_walk::page_number walk_slabs(const heap_view& h, const published_request& r) {
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

/// Searches with the heap's policy. With a fixed policy, the other algorithms are not compiled.
template <class Policy>
ORCHARD_INLINE random_walk::page_number walk_by_policy(const heap_view& h, const published_request& r) {
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

/// Returns a page (or run of units) for each lane of the request's group; none, with the reason, if there is none. All
/// lanes of a converged group call it.
template <class Policy>
ORCHARD_NOINLINE random_walk::page_number find_published(const heap_view& h, published_request& r,
                                                         failure_reason* why) {
    auto& head = h.state->slabs[r.slab_class];
    const std::uint64_t began = from_leader(r.group, simt::clock_ns());
    bool refused = from_leader(r.group, is_closing(h) ? 1u : 0u) != 0;
    *why = refused ? failure_reason::closing : failure_reason::none;
    if (refused) {
        return random_walk::no_page;
    }
    for (;;) {
        const std::uint32_t seen = from_leader(r.group, head.grown.load<order::relaxed>());
        random_walk::page_number page = random_walk::no_page;
        if (from_leader(r.group, head.count.load<order::relaxed>()) != 0) {
            page = walk_by_policy<Policy>(h, r);
        }
        r.group = simt::ballot(r.group, page == random_walk::no_page);
        if (page != random_walk::no_page || refused) {
            return page;
        }
        *why = grow_published(h, r.group, r.slab_class, seen);
        if (*why == failure_reason::closing) {
            return page;
        }
        const bool late = simt::clock_ns() - began > 4 * h.mailboxes[0].timeout_ns;
        if (*why == failure_reason::none && from_leader(r.group, late ? 1u : 0u) != 0) {
            *why = failure_reason::service_not_responding;  // other groups always take the pages first
        }
        refused = *why != failure_reason::none;  // after a failure, one walk more
    }
}

/// Returns a block of up to `largest_page_bytes` for the calling lane, or null with the reason. Any lanes call it.
/// Converged lanes that ask for the same class are served together. With `rw_malloc`, all sizes are served together,
/// and a block is aligned to its units, or to `alignment` if that is greater.
template <class Policy>
ORCHARD_NOINLINE void* allocate_published(const heap_view& h, std::uint64_t bytes, std::uint64_t alignment,
                                          std::uint32_t page_class, failure_reason* why) {
    const lane_mask here = simt::converge();
    const bool runs = Policy::of(h) == page_policy::rw_malloc;
    const std::uint32_t slab_class = runs ? h.published.unit_class : page_class;
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
    if (alignment > space.unit_bytes()) {
        page = trim_units(space, page, r.units, bytes, alignment);
    }
    mark_begin(space, page);
    // `page_counts` counts one unit for each lane of the group; this adds the rest.
    h.add(counter::allocated_bytes, (units_for(space.unit_bytes(), bytes, 0) - 1) * space.unit_bytes());
    return space.address(page);
}

}  // namespace orchard::device
