// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "tests/properties/model.hpp"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "device/state/heap_state.cuh"

namespace orchard::test {
namespace {

/// The page class that a request is served from; `chunk_class` for a chunk.
std::uint32_t class_for(const request& r) {
    if (r.what != action::aligned_alloc) {
        return r.bytes <= largest_page_bytes ? class_of(static_cast<std::uint32_t>(r.bytes)) : chunk_class;
    }
    if (r.bytes > largest_page_bytes || r.alignment > largest_page_bytes) {
        return chunk_class;
    }
    std::uint32_t c = class_of(static_cast<std::uint32_t>(std::max(r.bytes, r.alignment)));
    while (class_bytes(c) % r.alignment != 0) {
        ++c;
    }
    return c;
}

bool asks_for_memory(const request& r) {
    return r.bytes != 0 && (r.what == action::malloc || r.what == action::calloc || r.what == action::aligned_alloc ||
                            r.what == action::realloc);
}

bool bad_alignment(const request& r) {
    return r.what == action::aligned_alloc && (!std::has_single_bit(r.alignment) || r.alignment > segment_bytes);
}

std::uint64_t alignment_due(const request& r, bool page) {
    if (r.what == action::aligned_alloc) {
        return std::max<std::uint64_t>(r.alignment, 16);
    }
    if (!page) {
        return 256;
    }
    return std::has_single_bit(r.bytes) ? std::max<std::uint64_t>(r.bytes, 16) : 16;
}

/// The longest run of segments that are not in use.
std::uint64_t longest_run(const std::vector<bool>& used) {
    std::uint64_t longest = 0;
    std::uint64_t run = 0;
    for (const bool u : used) {
        run = u ? 0 : run + 1;
        longest = std::max(longest, run);
    }
    return longest;
}

std::string text_of(const held_block& b) { return absl::StrFormat("[0x%x, %d of %d B]", b.address, b.bytes, b.usable); }

}  // namespace

heap_model::heap_model(heap& on) {
    const device::heap_view view = on.ref().view();
    base_ = reinterpret_cast<std::uint64_t>(view.base);
    segments_ = view.segments;
    cache_target_ = view.cache_target;
}

std::vector<request> heap_model::plan(const step& s) {
    std::vector<request> requests(s.bursts.size() * launch_threads);
    std::vector<held_block> pool = live_;
    for (std::size_t round = 0; round < s.bursts.size(); ++round) {
        const burst& b = s.bursts[round];
        const bool of_a_block = b.what == action::realloc || b.what == action::free || b.what == action::free_inside;
        for (std::uint32_t lane = 0; lane < 32; ++lane) {
            if (!b.has(lane)) {
                continue;
            }
            request& r = requests[round * launch_threads + b.warp * 32 + lane];
            r = {b.what, b.bytes_of(lane), b.alignment, ++stamps_, {}};
            if (of_a_block && !pool.empty()) {
                const std::size_t i = device::mix(b.salt + lane) % pool.size();
                r.old = pool[i];
                pool[i] = pool.back();
                pool.pop_back();
            } else if (b.what == action::free_inside) {
                r = {};  // of nothing
            }
        }
    }
    return requests;
}

/// Returns the segments with blocks, and the segments of each chunk of which some block may still live; a chunk returns
/// as a whole.
std::vector<bool> heap_model::segments_in_use() const {
    std::vector<bool> used(segments_);
    std::vector<held_block> holding = live_;
    for (const held_block& freed : freed_of_chunks_) {
        const bool shared = std::any_of(live_.begin(), live_.end(),
                                        [&](const held_block& b) { return b.page == 0 && b.origin == freed.origin; });
        if (shared) {
            holding.push_back(freed);
        }
    }
    for (const held_block& b : holding) {
        for (std::uint64_t at = (b.address - base_) >> segment_shift;
             at <= (b.address + b.usable - 1 - base_) >> segment_shift && at < segments_; ++at) {
            used[at] = true;
        }
    }
    return used;
}

/// Returns, for each class, the unused pages in slabs of which some pages are in use.
std::vector<std::uint64_t> heap_model::spare_pages() const {
    std::vector<std::uint64_t> spare(class_count);
    std::vector<bool> seen(segments_);
    for (const held_block& b : live_) {
        if (b.page != 0) {
            const std::uint32_t c = class_of(static_cast<std::uint32_t>(b.usable));
            const std::uint64_t segment = (b.address - base_) >> segment_shift;
            spare[c] += seen[segment] ? 0 : class_pages(c);
            spare[c] -= 1;
            seen[segment] = true;
        }
    }
    return spare;
}

heap_model::demand heap_model::demand_of(const std::vector<request>& requests) const {
    demand d{std::vector<std::uint64_t>(class_count), 0, 0, 0, 0};
    for (const request& r : requests) {
        if (!asks_for_memory(r)) {
            continue;
        }
        ++d.lanes;
        if (bad_alignment(r) || r.bytes > segments_ << segment_shift) {
            ++d.impossible;
        } else if (const std::uint32_t c = class_for(r); c != chunk_class) {
            ++d.pages[c];
        } else {
            const std::uint64_t k = segments_for((r.bytes + 255) / 256 * 256);
            d.chunk_segments += k;
            d.largest_chunk = std::max(d.largest_chunk, k);
        }
    }
    return d;
}

/// Returns true if memory suffices for all requests, whatever segments are in the segment cache or in empty slabs.
/// Memory that is freed in the same step does not count.
bool heap_model::must_serve_all(const step& s, const demand& d) const {
    const std::vector<bool> used = segments_in_use();
    const auto unused = static_cast<std::uint64_t>(std::count(used.begin(), used.end(), false));
    const std::uint64_t run = longest_run(used);
    // One warp alone gets every free page and segment. Several at once may take each other's pages for a moment.
    const bool alone = s.bursts.size() == 1;
    const std::vector<std::uint64_t> spare = spare_pages();
    std::uint64_t slabs = 0;  // that are needed
    for (std::uint32_t c = 0; c < class_count; ++c) {
        const std::uint64_t found = alone ? std::min(spare[c], d.pages[c]) : 0;
        slabs += (d.pages[c] - found + class_pages(c) - 1) / class_pages(c);
    }
    if (alone && d.chunk_segments == 0) {
        return slabs <= unused;
    }
    if (alone && d.lanes == 1) {
        return d.chunk_segments <= run;
    }
    // Other groups may hold some segments for a moment: segments on their way to the host, the segment cache, and a
    // refill in progress.
    const std::uint64_t held = 2 * cache_target_ + 2;
    const std::uint64_t others = slabs + d.chunk_segments - d.largest_chunk + held;
    // In the worst case the held segments divide the rest into equal parts.
    return d.chunk_segments == 0 ? slabs + held <= unused
                                 : others <= run && (run - others) / (others + 1) >= d.largest_chunk;
}

std::string heap_model::judge(const step& s, const std::vector<request>& requests, const std::vector<answer>& answers) {
    const demand d = demand_of(requests);
    const bool must_serve = must_serve_all(s, d);
    if (must_serve) {
        certain_ += d.lanes - d.impossible;
    }
    // Removes freed blocks first and then adds new ones, because an address may be both.
    for (const request& r : requests) {
        if (r.old.address != 0 && r.what != action::free_inside) {
            take_out(r.old);
        }
    }
    ++launches_;
    for (std::size_t i = 0; i < requests.size(); ++i) {
        const std::uint64_t origin = launches_ * launch_warps + i % launch_threads / 32;
        if (const std::string wrong = judge_one(requests[i], answers[i], origin, must_serve); !wrong.empty()) {
            return absl::StrFormat("burst %d, warp %d, lane %d: %s", i / launch_threads, i % launch_threads / 32,
                                   i % 32, wrong);
        }
    }
    return check_overlap();
}

void heap_model::take_out(const held_block& b) {
    std::erase_if(live_, [&](const held_block& other) { return other.stamp == b.stamp; });
    if (b.page == 0) {
        freed_of_chunks_.push_back(b);
    }
}

std::string heap_model::judge_one(const request& r, const answer& a, std::uint64_t origin, bool must_serve) {
    constexpr std::pair<complaint, const char*> complaints[] = {
        {complaint::changed, "the block was not as its owner left it"},
        {complaint::lost, "realloc did not keep the contents"},
        {complaint::not_zero, "calloc's memory is not zero"},
        {complaint::not_owned, "the heap does not own what it returned"},
        {complaint::usable_changed, "usable_size changed while the block was held"}};
    for (const auto& [what, text] : complaints) {
        if ((a.complaints & static_cast<std::uint32_t>(what)) != 0) {
            return absl::StrCat(text, ": ", text_of(r.old.address != 0 ? r.old : held_block{a.address, r.bytes}));
        }
    }
    wrong_frees_ += r.what == action::free_inside ? 1 : 0;
    const bool real_realloc = r.what == action::realloc && r.old.address != 0 && r.bytes != 0;
    reallocs_ += real_realloc ? 1 : 0;
    if (!asks_for_memory(r) || a.address == 0) {
        if (a.address != 0) {
            return "an address where there is none to return";
        }
        return asks_for_memory(r) ? judge_null(r, must_serve) : "";
    }
    const bool in_place = real_realloc && a.address == r.old.address;
    const bool page = in_place ? r.old.page != 0 : class_for(r) != chunk_class;
    if (bad_alignment(r)) {
        return absl::StrCat("memory, although ", r.alignment, " is no alignment");
    }
    if (!in_place && a.address % alignment_due(r, page) != 0) {
        return absl::StrFormat("0x%x is not aligned to %d for %d B", a.address, alignment_due(r, page), r.bytes);
    }
    if (a.usable < r.bytes) {
        return absl::StrFormat("%d usable bytes where %d were asked for", a.usable, r.bytes);
    }
    if (!in_place && page && a.usable != class_bytes(class_for(r))) {
        return absl::StrFormat("a page of %d B for %d B", a.usable, r.bytes);
    }
    moved_ += real_realloc && !in_place ? 1 : 0;
    hidden_nulls_ += in_place && r.bytes <= r.old.usable ? 1 : 0;
    allocations_ += in_place ? 0 : 1;
    allocated_bytes_ += in_place ? 0 : page ? a.usable : r.bytes;
    live_.push_back({a.address, r.bytes, a.usable, r.stamp, page ? 1u : 0u, in_place ? r.old.origin : origin});
    return "";
}

std::string heap_model::judge_null(const request& r, bool must_serve) {
    ++nulls_;
    if (r.what == action::realloc && r.old.address != 0) {
        live_.push_back(r.old);  // is kept
        if (r.bytes <= r.old.usable) {
            return "a realloc that needs no more memory failed";
        }
    }
    const bool impossible = bad_alignment(r) || r.bytes > segments_ << segment_shift;
    return must_serve && !impossible ? absl::StrFormat("null for %d B, although there is room for all", r.bytes) : "";
}

std::string heap_model::check_overlap() const {
    std::vector<held_block> sorted = live_;
    std::sort(sorted.begin(), sorted.end(),
              [](const held_block& a, const held_block& b) { return a.address < b.address; });
    std::uint64_t end = base_;
    for (std::size_t i = 0; i < sorted.size(); ++i) {
        if (sorted[i].address < end) {
            return absl::StrCat(text_of(sorted[i]), " overlaps ",
                                i != 0 ? text_of(sorted[i - 1]) : std::string("what lies before the heap"));
        }
        end = sorted[i].address + sorted[i].usable;
    }
    return end <= base_ + (segments_ << segment_shift) ? "" : "a block reaches beyond the heap";
}

std::string heap_model::compare(const statistics& counted) const {
    std::string wrong;
    const auto expect = [&](const char* what, std::uint64_t is, std::uint64_t least, std::uint64_t most) {
        if (is < least || is > most) {
            absl::StrAppend(&wrong, what, " is ", is, " and should be ", least, most != least ? " or more; " : "; ");
        }
    };
    const auto pages = static_cast<std::uint64_t>(
        std::count_if(live_.begin(), live_.end(), [](const held_block& b) { return b.page != 0; }));
    expect("pages_in_use", counted.pages_in_use, pages, pages);
    expect("allocations", counted.allocations, allocations_, allocations_);
    expect("frees", counted.frees, allocations_ - live_.size(), allocations_ - live_.size());
    expect("allocated_bytes", counted.allocated_bytes, allocated_bytes_, allocated_bytes_);
    expect("failed_allocations", counted.failed_allocations, nulls_, nulls_ + hidden_nulls_);
    expect("reallocs", counted.reallocs, reallocs_, reallocs_);
    expect("reallocs_moved", counted.reallocs_moved, moved_, moved_);
    expect("invalid_frees", counted.invalid_frees, wrong_frees_, wrong_frees_);
    expect("live_chunks", counted.live_chunks, live_.size() != pages ? 1 : 0, live_.size() - pages);
    return wrong;
}

}  // namespace orchard::test
