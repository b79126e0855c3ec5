// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The map of a heap (`heap::map`, `heap::dump`), from these sources:
///
///     service_snapshot    uncommitted, free, granted; portions; extents     on the service's thread
///     descriptors         slabs, chunks                                     one copy
///     bitmaps             pages in use of each slab                         several slabs in one copy
///     chunk records       lanes, blocks, tails                              chunk_walk.hpp
///     chunk store         chunks that wait                                  for_each_stored
///     segment cache       segments and portions that wait                   a bit each
///     backing             where memory lies, if it moves
///
/// A granted segment is what the first of these says that knows it; `held` if none does. Beside running kernels the
/// sources contradict each other: every list is made such that a reader may rely on its form (heap_map.hpp), whatever
/// the copies contain.

#include "runtime/heap/heap_snapshot.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "device/published/page_policy.cuh"
#include "device/segments/segment_cache.cuh"
#include "runtime/heap/chunk_walk.hpp"
#include "runtime/heap/dump_file.hpp"
#include "runtime/heap/heap_impl.hpp"
#include "runtime/heap/metadata_copy.hpp"
#include "runtime/machine/version.hpp"

namespace orchard {
namespace {

using device::descriptor;
using device::heap_view;
using device::segment_kind;
using simt::order;

/// Returns the leaf at which a portion begins, counted from the heap's first.
std::uint32_t leaf_of(const portion& p) { return to_underlying(p.block) * leaves_per_segment + to_underlying(p.first); }

map_tier tier_of(memory_tier tier) { return tier == memory_tier::host ? map_tier::host : map_tier::device; }

/// Makes the lists of one map.
class map_maker {
public:
    /// All arguments must outlive the object.
    map_maker(const heap_view& view, backing& memory, const service_snapshot& service, heap_map& map)
        : view_{view}, memory_{memory}, service_{service}, map_{map}, uses_(view.segments, segment_use::held) {}

    absl::Status run(bool managed) {
        auto descriptors = copy_of_descriptors(view_, memory_);
        if (!descriptors.ok()) {
            return descriptors.status();
        }
        descriptors_ = *std::move(descriptors);
        take_service();
        for (auto step : {&map_maker::read_slabs, &map_maker::read_chunks, &map_maker::read_stored,
                          &map_maker::read_cached_segments, &map_maker::read_cached_portions}) {
            if (absl::Status s = (this->*step)(); !s.ok()) {
                return s;
            }
        }
        for (const segment_use use : uses_) {
            if (map_.uses.empty() || map_.uses.back().use != use) {
                map_.uses.push_back({use, 0});
            }
            ++map_.uses.back().count;
        }
        list_memory(managed);
        return absl::OkStatus();
    }

private:
    /// Enters what the service knows. What is still `held` afterwards was granted as a whole.
    void take_service() {
        for (std::uint32_t i = 0; i < view_.segments; ++i) {
            const segment_state state = i < service_.states.size() ? service_.states[i] : segment_state::outside;
            uses_[i] = state == segment_state::granted ? segment_use::held
                       : state == segment_state::free  ? segment_use::free
                                                       : segment_use::uncommitted;
        }
        for (const portion& p : service_.portions) {
            if (to_underlying(p.block) < view_.segments) {
                uses_[to_underlying(p.block)] = segment_use::portions;
                map_.portions.push_back({leaf_of(p), to_underlying(p.leaves), portion_use::held});
            }
        }
    }

    /// Gives a segment that was granted as a whole a use; does nothing for another one.
    bool take(std::uint32_t segment, segment_use use) {
        if (segment >= uses_.size() || uses_[segment] != segment_use::held) {
            return false;
        }
        uses_[segment] = use;
        return true;
    }

    /// Gives the portion that begins at `leaf` a use, if it is one of `leaves` leaves without a use.
    void take_portion(std::uint32_t leaf, std::uint32_t leaves, portion_use use) {
        const auto at = std::ranges::lower_bound(map_.portions, leaf, {}, &heap_map::piece::first_leaf);
        if (at != map_.portions.end() && at->first_leaf == leaf && at->leaves == leaves &&
            at->use == portion_use::held) {
            at->use = use;
        }
    }

    /// Slabs, with the pages in use. A bit more than pages may be set while a kernel claims one.
    absl::Status read_slabs() {
        const auto class_at = [&](std::uint32_t i) {
            const std::uint64_t d = descriptors_[i];
            return uses_[i] == segment_use::held && descriptor::kind(d) == segment_kind::slab
                       ? descriptor::page_class(d)
                       : class_count;
        };
        // `for_each_bitmap` asks again for a segment after its visit, so that the uses are entered afterwards.
        absl::Status status = for_each_bitmap(
            view_, memory_,
            [&](std::uint32_t i) -> std::uint64_t { return class_at(i) < class_count ? class_words(class_at(i)) : 0; },
            [&](std::uint32_t i, std::span<const device::device_word<std::uint64_t>> words) {
                std::uint32_t pages = 0;
                for (const auto& w : words) {
                    pages += static_cast<std::uint32_t>(std::popcount(w.load<order::relaxed>()));
                }
                add_slab(i, class_at(i), std::min(pages, class_pages(class_at(i))));
                return absl::OkStatus();
            });
        for (const heap_map::slab_run& r : map_.slabs) {
            std::fill_n(uses_.begin() + r.first, r.count, segment_use::slab);
        }
        return status;
    }
    void add_slab(std::uint32_t i, std::uint32_t page_class, std::uint32_t pages) {
        if (!map_.slabs.empty()) {
            heap_map::slab_run& last = map_.slabs.back();
            if (last.first + last.count == i && last.page_class == page_class && last.pages_in_use == pages) {
                ++last.count;
                return;
            }
        }
        map_.slabs.push_back({i, 1, page_class, pages});
    }

    /// Chunks with a block that is not freed. One that contradicts the service, or an earlier chunk, is left out: a
    /// kernel is changing it.
    absl::Status read_chunks() {
        absl::Status status =
            for_each_chunk(view_, memory_, descriptors_, [&](device::chunk_id id, const device::chunk_blocks& blocks) {
                add_chunk(id, blocks);
                return absl::OkStatus();
            });
        return status;
    }
    void add_chunk(device::chunk_id id, const device::chunk_blocks& blocks) {
        heap_map::chunk c;
        c.first_leaf = device::first_leaf(id);
        c.segments = blocks.segments();
        c.leaves = blocks.leaves();
        c.lanes = blocks.lanes();
        c.interleaved = blocks.interleaved();
        if (c.lanes == 0 || c.lanes > simt::warp_size || c.segments > view_.segments ||
            c.leaves >= leaves_per_segment || (c.segments == 0) != device::is_portion(id)) {
            return;
        }
        const std::uint32_t live = blocks.live().load<order::relaxed>();
        c.live_lanes = std::min(static_cast<std::uint32_t>(std::popcount(live)), c.lanes);
        const std::uint64_t held = c.segments * segment_bytes + c.leaves * big_page_bytes;
        // The end of the last block.
        c.asked_bytes = std::min(std::uint64_t{blocks.offset(c.lanes)} << device::chunk_unit_shift, held);
        const std::uint32_t first = c.first_leaf / leaves_per_segment;
        for (std::uint32_t i = 0; i < c.segments; ++i) {
            if (first + i >= view_.segments || uses_[first + i] != segment_use::held) {
                return;
            }
        }
        if (c.leaves != 0) {
            c.tail = c.segments == 0            ? c.first_leaf
                     : blocks.has_pooled_tail() ? blocks.tail()
                                                : c.first_leaf + c.segments * leaves_per_segment;
            if (std::uint64_t{c.tail} + c.leaves > std::uint64_t{view_.segments} * leaves_per_segment) {
                return;
            }
        }
        std::fill_n(uses_.begin() + first, c.segments, segment_use::chunk);
        if (c.leaves != 0) {
            take_portion(c.tail, c.leaves, c.segments == 0 ? portion_use::chunk : portion_use::tail);
        }
        map_.chunks.push_back(c);
    }

    /// Chunks that were freed as a whole and wait for a request of their size.
    absl::Status read_stored() {
        return for_each_stored(view_, memory_, [&](std::uint32_t, device::stored_chunk c) {
            const std::uint32_t segments = c.leaves / leaves_per_segment;
            for (std::uint32_t i = 0; i < segments && i < view_.segments; ++i) {
                take(c.first / leaves_per_segment + i, segment_use::stored);
            }
            if (c.leaves % leaves_per_segment != 0) {
                take_portion(c.first + segments * leaves_per_segment, c.leaves % leaves_per_segment,
                             portion_use::stored);
            }
            return absl::OkStatus();
        });
    }

    absl::Status read_cached_segments() {
        const auto words = copy_of(memory_, view_.cache, view_.cache_words());
        if (!words.ok()) {
            return words.status();
        }
        for (std::uint32_t w = 0; w < words->size(); ++w) {
            for (std::uint64_t bits = (*words)[w].load<order::relaxed>(); bits != 0; bits &= bits - 1) {
                take(w * 64 + static_cast<std::uint32_t>(std::countr_zero(bits)), segment_use::cached);
            }
        }
        return absl::OkStatus();
    }

    /// Looks for the portions without a chunk in the segment cache. The bitmaps of all lengths for 32 segments are
    /// adjacent (`heap_view::words_a_line`), so that they are one copy.
    absl::Status read_cached_portions() {
        constexpr std::uint32_t a_line = heap_view::words_a_line;
        constexpr std::uint64_t words_of_line = std::uint64_t{leaves_per_segment - 1} * a_line;
        std::vector<device::device_word<std::uint64_t>> words;
        std::uint32_t copied = ~0u;
        for (heap_map::piece& p : map_.portions) {
            if (p.use != portion_use::held || p.leaves == 0 || p.leaves >= leaves_per_segment) {
                continue;
            }
            const std::uint32_t word = p.first_leaf / 64;
            if (const std::uint32_t line = word / a_line; line != copied) {
                absl::Status s = copy_line(line, words_of_line, words);
                if (!s.ok()) {
                    return s;
                }
                copied = line;
            }
            const std::uint64_t bits = words[(p.leaves - 1) * a_line + word % a_line].load<order::relaxed>();
            p.use = (bits >> p.first_leaf % 64 & 1) != 0 ? portion_use::cached : portion_use::held;
        }
        return absl::OkStatus();
    }
    /// Copies the words of one line for all lengths; zeros if no thread has cleared them, since they then hold
    /// arbitrary values.
    absl::Status copy_line(std::uint32_t line, std::uint64_t count,
                           std::vector<device::device_word<std::uint64_t>>& words) {
        if (view_.clears_metadata) {
            const auto state = copy_of(memory_, view_.cleared_lines + line, 1);
            if (!state.ok()) {
                return state.status();
            }
            if ((*state)[0].load<order::relaxed>() != static_cast<std::uint32_t>(device::line_state::cleared)) {
                words = std::vector<device::device_word<std::uint64_t>>(count);
                return absl::OkStatus();
            }
        }
        auto copied = copy_of(memory_, view_.portions + line * count, count);
        if (!copied.ok()) {
            return copied.status();
        }
        words = *std::move(copied);
        return absl::OkStatus();
    }

    /// Lists the commits and the tiers. Memory that moves is where the backing says, other memory where it was
    /// committed.
    void list_memory(bool managed) {
        std::vector<map_tier> tiers(view_.segments, managed ? map_tier::managed : map_tier::device);
        const auto each = [&](const segment_run& run, auto f) {
            const std::uint32_t first = to_underlying(run.first);
            for (std::uint32_t i = first; i < view_.segments && i - first < run.count; ++i) {
                f(i);
            }
        };
        for (const extent& e : service_.extents) {
            const map_tier tier = managed ? map_tier::managed : tier_of(e.tier);
            map_.extents.push_back({to_underlying(e.run.first), e.run.count, tier});
            each(e.run, [&](std::uint32_t i) { tiers[i] = tier; });
        }
        for (const movable_memory& m : memory_.movable()) {
            each(m.run, [&](std::uint32_t i) { tiers[i] = tier_of(m.tier); });
        }
        for (std::uint32_t i = 0; i < view_.segments; ++i) {
            if (uses_[i] == segment_use::uncommitted) {
                continue;
            }
            if (map_.tiers.empty() || map_.tiers.back().tier != tiers[i] ||
                map_.tiers.back().first + map_.tiers.back().count != i) {
                map_.tiers.push_back({i, 0, tiers[i]});
            }
            ++map_.tiers.back().count;
        }
    }

    const heap_view& view_;
    backing& memory_;
    const service_snapshot& service_;
    heap_map& map_;
    std::vector<segment_use> uses_;  ///< [segment]
    std::vector<std::uint64_t> descriptors_;
};

}  // namespace

service_snapshot::service_snapshot(const segment_service& service) {
    states.reserve(service.segments());
    for (std::uint32_t i = 0; i < service.segments(); ++i) {
        states.push_back(service.state_of(segment_index{i}));
    }
    service.for_each_portion([this](const portion& p) { portions.push_back(p); });
    service.for_each_extent([this](const extent& e) { extents.push_back(e); });
}

absl::Status read_map(const device::heap_view& view, backing& memory, const service_snapshot& service, bool managed,
                      heap_map& map) {
    return map_maker(view, memory, service, map).run(managed);
}

absl::StatusOr<heap_map> heap::map() {
    absl::Status here = impl_->check_process();
    return here.ok() ? impl_->alone([this] { return impl_->map(); }) : here;
}

absl::Status heap::dump(const std::string& path) {
    const auto made = map();
    return made.ok() ? write_dump(path, to_json(*made)) : made.status();
}

/// The statistics first: they cost no turn of the service, and the rest is compared with them.
absl::StatusOr<heap_map> heap::impl::map() {
    // Two turns, so that the service's counts are those of all that was asked of it before.
    if (absl::Status s = take_turns("map"); !s.ok()) {
        return s;
    }
    const auto totals = stats();
    if (!totals.ok()) {
        return totals.status();
    }
    std::optional<service_snapshot> service;
    if (absl::Status s = run("map", [&] { service.emplace(*service_); }); !s.ok()) {
        return s;
    }
    heap_map result;
    result.program = version_text;
    result.device = name_of(choice.kind);
    result.policy = device::name_of(walk_.algorithm);
    for (const option_info& o : option_table(values)) {
        result.options.emplace_back(o.name, o.value);
        if (o.name == "backing") {
            result.backing = o.value;
        } else if (o.name == "layout") {
            result.layout = o.value;
        }
    }
    result.pid = ::getpid();
    result.segments = view.segments;
    result.capacity_bytes = std::uint64_t{view.max_slabs} << segment_shift;
    result.totals = *totals;
    const bool managed = values.backing == backing_option::managed;
    if (absl::Status s = read_map(view, *memory_, *service, managed, result); !s.ok()) {
        return s;
    }
    result.is_exact = difference(result).empty();
    return result;
}

}  // namespace orchard
