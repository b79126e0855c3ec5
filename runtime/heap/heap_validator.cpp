// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Checks a heap's metadata in device memory against itself, and against the memory that the host has handed out.
///
///     slab tables <--> descriptors, records        a slab is in the table of its class, and nowhere else
///     chunk records <--> descriptors, leaf owners  `free` finds the chunk of each block
///     segment cache: bits <--> summary, level      a search finds all entries, and counts are right
///     chunk store: slots <--> summary, level
///     all owners <--> granted segments, portions   nothing is lost, and nothing has two owners
///
/// All of it is read by copies; nothing is launched. The first fault found ends the check: others are often its
/// consequence. Each message has the place and the words that contradict each other.

#include "runtime/heap/heap_validator.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "device/segments/segment_cache.cuh"
#include "runtime/heap/chunk_validator.hpp"
#include "runtime/heap/metadata_copy.hpp"
#include "runtime/heap/policy_validator.hpp"

namespace orchard {
namespace {

using device::descriptor;
using device::heap_view;
using device::segment_kind;
using simt::order;
using word64 = simt::device_word<std::uint64_t>;
using word32 = simt::device_word<std::uint32_t>;

/// The checks, in this order. Those that find owners enter them into `owners_`, which finds memory with two owners at
/// once, and is compared at the end with the memory that the host has handed out: nothing may be lost.
///
///     check_tables      slabs: tables, descriptors and records name each other         enters slabs
///     check_chunks      chunks (chunk_validator.hpp)                                   enters segments and portions
///     check_cache       the segment cache: segments                                    enters segments
///     check_portions    the segment cache: portions of each length                     enters portions
///     check_stored      the chunk store                                                enters segments and portions
///     check_bitmaps     bits that stand for no page are 0
///     check_slots       no request is under way
class checker {
public:
    /// `view` and `memory` must outlive the object.
    checker(const heap_view& view, backing& memory) : view_{view}, memory_{memory}, owners_{view.segments} {}

    /// Makes all checks, and compares the owners with `granted`. Call it once.
    absl::Status run(const granted_memory& granted) {
        auto descriptors = copy_of_descriptors(view_, memory_);
        if (!descriptors.ok()) {
            return descriptors.status();
        }
        descriptors_ = *std::move(descriptors);
        for (auto step :
             {&checker::check_tables, &checker::check_chunks, &checker::check_cache, &checker::check_portions,
              &checker::check_stored, &checker::check_bitmaps, &checker::check_slots}) {
            if (absl::Status s = (this->*step)(); !s.ok()) {
                return s;
            }
        }
        return owners_.compare(granted);
    }

private:
    /// Checks that every slab is in its class's table at the index in its record, that its descriptor has the class and
    /// the factor for its pages, and that the tables have no other entries. As many entries as slabs, and each of them
    /// a slab: then no slab is missing in the tables.
    ///
    ///     table of class 4       | 8 | 0 | 3 |      entry 0 is segment 7, entry 2 is segment 2
    ///     records                segment 7: slab index 0        segment 2: slab index 2
    ///     descriptors            segment 7: slab, class 4, page_reciprocal(4)        segment 2: the same
    ///
    /// Cost: one copy for each table, and one for the record of each slab.
    absl::Status check_tables() {
        auto state = copy_of(memory_, view_.state, 1);
        if (!state.ok()) {
            return state.status();
        }
        std::uint32_t entries = 0;
        for (std::uint32_t c = 0; c < class_count; ++c) {
            // All indices ever used are below it, so that the rest of the table is empty.
            const std::uint32_t count = (*state)[0].slabs[c].count.load<order::relaxed>();
            if (count > view_.max_slabs) {
                return absl::InternalError(
                    absl::StrFormat("class %d: %d slabs in a table of %d", c, count, view_.max_slabs));
            }
            auto table = copy_of(memory_, view_.table(c), count);
            if (!table.ok()) {
                return table.status();
            }
            for (std::uint32_t i = 0; i < count; ++i) {
                const std::uint32_t entry = (*table)[i].load<order::relaxed>();
                if (entry == 0) {
                    continue;
                }
                // Entries that are empty stay from retired slabs. A reserved one would keep the groups waiting that
                // come to it.
                if (entry == device::growing_entry) {
                    return absl::InternalError(
                        absl::StrFormat("class %d: table entry %d is reserved for a slab that no group creates", c, i));
                }
                ++entries;
                if (absl::Status s = owners_.take(entry - 1, "slab"); !s.ok()) {
                    return s;
                }
                // An entry is a segment + 1, so that 0 means empty. `take` has checked that the segment exists.
                const std::uint64_t d = descriptors_[entry - 1];
                const auto record = copy_of(memory_, &view_.records[entry - 1], 1);
                if (!record.ok()) {
                    return record.status();
                }
                const std::uint32_t place = (*record)[0].slab_index.get();
                // The extent of a slab is the factor by which `free` turns an address into a page.
                if (!descriptor::is_slab_of(d, c) || descriptor::extent(d) != page_reciprocal(c) || place != i) {
                    return absl::InternalError(absl::StrFormat(
                        "class %d: table entry %d is segment %d, whose descriptor %#x and place %d do not say so", c, i,
                        entry - 1, d, place));
                }
            }
        }
        // The opposite direction: segments that say they are slabs.
        std::uint32_t slabs = 0;
        for (const std::uint64_t d : descriptors_) {
            slabs += descriptor::kind(d) == segment_kind::slab ? 1 : 0;
        }
        return slabs == entries
                   ? absl::OkStatus()
                   : absl::InternalError(absl::StrFormat("%d segments are slabs, the tables have %d", slabs, entries));
    }

    /// Enters the owners of all chunks, those that are portions, too.
    absl::Status check_chunks() { return validate_chunks(view_, memory_, descriptors_, owners_); }

    /// Each bit is a free segment that the device holds; the host must have handed it out.
    absl::Status check_cache() {
        return check_cache_bitmap(device::segments_cached(view_), "segment cache", [this](std::uint32_t segment) {
            return owners_.take(segment, "segment in the segment cache");
        });
    }
    /// A portion in the segment cache is known by its first leaf; its length is that of the bitmap in which it is.
    absl::Status check_portions() {
        for (std::uint32_t leaves = 1; leaves < leaves_per_segment; ++leaves) {
            absl::Status s =
                check_cache_bitmap(device::cached_portions(view_, leaves),
                                   absl::StrFormat("segment cache of %d leaves", leaves), [&](std::uint32_t leaf) {
                                       owners_.take_portion(leaf, leaves, "in the segment cache a portion");
                                       return absl::OkStatus();
                                   });
            if (!s.ok()) {
                return s;
            }
        }
        return absl::OkStatus();
    }

    /// Each chunk in the store must be in the class of its length. The level is the sum of the lengths, and the count
    /// of a class the number of its chunks.
    absl::Status check_stored() {
        auto state = copy_of(memory_, view_.state, 1);
        if (!state.ok()) {
            return state.status();
        }
        std::uint64_t total = 0;
        std::array<std::uint32_t, device::chunk_store::classes> chunks{};
        absl::Status status = for_each_stored(view_, memory_, [&](std::uint32_t of_class, device::stored_chunk c) {
            if (c.leaves == 0 || device::stored_chunk::class_of(c.leaves) != of_class) {
                return absl::InternalError(absl::StrFormat("the chunk store has %d leaves from leaf %d on in class %d",
                                                           c.leaves, c.first, of_class));
            }
            total += c.leaves;
            ++chunks[of_class];
            return owners_.take_chunk(c.first, c.leaves / leaves_per_segment, c.leaves % leaves_per_segment,
                                      "chunk in the chunk store", "in the chunk store a portion");
        });
        // A level that is too low would let the store take more than its share.
        const std::uint64_t says = (*state)[0].stored_leaves.word.load<order::relaxed>();
        if (status.ok() && says != total) {
            status = absl::InternalError(absl::StrFormat("the chunk store holds %d leaves and says %d", total, says));
        }
        // A count that is too low would hide chunks from requests and from reclaims.
        for (std::uint32_t c = 0; c < chunks.size() && status.ok(); ++c) {
            const std::uint64_t word = (*state)[0].stored_count[c].word.load<order::relaxed>();
            if (word != chunks[c] * device::chunk_count::chunk) {
                status = absl::InternalError(
                    absl::StrFormat("class %d of the chunk store holds %d chunks and says %#x", c, chunks[c], word));
            }
        }
        return status;
    }

    /// Treats the copied words of portions as zero if no thread has cleared them yet, because such words hold arbitrary
    /// values. A line is cleared as a whole, for all lengths.
    absl::Status blank_raw_lines() {
        // The words of a line for all lengths, which are adjacent.
        constexpr std::size_t words = std::size_t{leaves_per_segment - 1} * heap_view::words_a_line;
        const auto lines = copy_of(memory_, view_.cleared_lines, view_.portion_lines());
        if (!lines.ok()) {
            return lines.status();
        }
        for (std::size_t i = 0; i < lines->size(); ++i) {
            // A line that is `in_work` has no valid words either.
            if ((*lines)[i].load<order::relaxed>() != static_cast<std::uint32_t>(device::line_state::cleared)) {
                for (std::size_t w = 0; w < words; ++w) {
                    portions_[i * words + w].store<order::relaxed>(0);
                }
            }
        }
        return absl::OkStatus();
    }

    /// Returns the words of one bitmap of the segment cache. The words of portions of all lengths are interleaved line
    /// by line, and are copied once, at the first call.
    absl::StatusOr<std::vector<std::uint64_t>> words_of(const device::cache_bitmap& from) {
        // The words of segments are contiguous; those of portions begin at `view_.portions` for all lengths.
        const word64* begin = from.leaves != 0 ? view_.portions : from.words;
        // Kept for the bitmaps of all lengths; a copy for each would cost a call of the device each.
        std::vector<word64>& all = from.leaves != 0 ? portions_ : segments_;
        if (all.empty()) {
            constexpr std::uint64_t lengths = leaves_per_segment - 1;
            auto copy =
                copy_of(memory_, begin,
                        from.leaves != 0 ? lengths * heap_view::words_a_line * view_.portion_lines() : from.count);
            if (!copy.ok()) {
                return copy.status();
            }
            all = *std::move(copy);
            if (from.leaves != 0 && view_.clears_metadata) {
                if (absl::Status s = blank_raw_lines(); !s.ok()) {
                    return s;
                }
            }
        }
        std::vector<std::uint64_t> words;
        words.reserve(from.count);
        for (std::uint32_t w = 0; w < from.count; ++w) {
            // `from.at(w)` is an address in device memory, which only tells the word's position in the copy.
            words.push_back(all[static_cast<std::size_t>(&from.at(w) - begin)].load<order::relaxed>());
        }
        return words;
    }

    /// Checks words, summary and level of one bitmap of the segment cache; calls `each(place)` for each bit that is
    /// set. A summary bit may be 1 for an empty word, and must be 1 for a word with a bit: a search would not find it
    /// otherwise. The level is the number of bits.
    absl::Status check_cache_bitmap(const device::cache_bitmap& from, const std::string& name,
                                    const std::function<absl::Status(std::uint32_t)>& each) {
        auto words = words_of(from);
        auto summary = copy_of(memory_, from.summary, (from.count + 63) / 64);
        auto level = copy_of(memory_, from.level, 1);
        if (!words.ok() || !summary.ok() || !level.ok()) {
            return !words.ok() ? words.status() : !summary.ok() ? summary.status() : level.status();
        }
        std::uint64_t total = 0;
        for (std::uint32_t w = 0; w < from.count; ++w) {
            std::uint64_t bits = (*words)[w];
            if (bits == 0) {
                continue;  // nearly all words of a wide range
            }
            // Summary bit w stands for word w.
            const bool marked = ((*summary)[w / 64].load<order::relaxed>() >> (w % 64) & 1) != 0;
            if (!marked) {
                return absl::InternalError(absl::StrFormat("%s word %d is not in the summary", name, w));
            }
            total += static_cast<std::uint64_t>(std::popcount(bits));
            // From the lowest bit upwards; each round clears one.
            for (; bits != 0; bits &= bits - 1) {
                const std::uint32_t place = w * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
                if (absl::Status s = each(place); !s.ok()) {
                    return s;
                }
            }
        }
        // A level that is too high would make groups search for nothing; one that is too low hides memory.
        const std::uint64_t says = (*level)[0].load<order::relaxed>();
        return says == total ? absl::OkStatus()
                             : absl::InternalError(absl::StrFormat("the %s holds %d and says %d", name, total, says));
    }

    /// Checks the part of each bitmap that was ever cleared: a slab has bits for its pages alone, any other segment has
    /// none, since the next slab there relies on zeros.
    absl::Status check_bitmaps() {
        // Words that were never cleared may hold anything; a heap whose metadata is zero from the start has no such
        // words.
        std::vector<std::uint64_t> cleared(view_.segments, device::bitmap_words);
        if (view_.clears_metadata) {
            const auto words = copy_of(memory_, view_.cleared_words, view_.segments);
            if (!words.ok()) {
                return words.status();
            }
            std::transform(words->begin(), words->end(), cleared.begin(),
                           [](const auto& w) { return w.template load<order::relaxed>(); });
        }
        return for_each_bitmap(
            view_, memory_, [&](std::uint32_t i) { return cleared[i]; },
            [this](std::uint32_t segment, std::span<const word64> words) {
                const std::uint64_t d = descriptors_[segment];
                const bool slab = descriptor::kind(d) == segment_kind::slab;
                // Of a segment that is no slab, the class has no meaning and is not used.
                const std::uint32_t c = descriptor::page_class(d);
                for (std::uint32_t w = 0; w < words.size(); ++w) {
                    // Bits behind the last page of the slab, and all bits of a segment that is no slab, must be clear.
                    const std::uint64_t allowed = slab && w < class_words(c) ? class_word_mask(c, w) : 0;
                    const std::uint64_t found = words[w].load<order::relaxed>();
                    if ((found & ~allowed) != 0) {
                        return absl::InternalError(absl::StrFormat(
                            "segment %d: bitmap word %d is %#x, only %#x stand for pages", segment, w, found, allowed));
                    }
                }
                return absl::OkStatus();
            });
    }

    /// Checks that each slot is idle. A slot that is never freed again would be one request less that can be under way.
    absl::Status check_slots() {
        // The slots follow the mailbox's device part in memory.
        auto words = copy_of(memory_, view_.mailbox.device->slots(), view_.mailbox.shape.slots);
        if (!words.ok()) {
            return words.status();
        }
        for (std::uint32_t i = 0; i < words->size(); ++i) {
            const std::uint64_t word = (*words)[i].load<order::relaxed>();
            // `pending` is set from the claim of a slot until it is idle again.
            if ((word & mailbox::slot_word::pending) != 0) {
                return absl::InternalError(absl::StrFormat("mailbox: slot %d is still in use (%#x)", i, word));
            }
        }
        return absl::OkStatus();
    }

    const heap_view& view_;
    backing& memory_;
    // Filled by the checks, in the order of the list above.
    ownership owners_;
    std::vector<std::uint64_t> descriptors_;
    std::vector<word64> segments_;  ///< words of whole segments in the segment cache
    std::vector<word64> portions_;  ///< words of portions of all lengths in the segment cache
};

}  // namespace

/// Orchard's structures first, since the published algorithms use its slabs; then those that only some of them have.
absl::Status validate_device_side(const device::published_view& view, backing& memory, const granted_memory& granted) {
    absl::Status status = checker(view, memory).run(granted);
    return status.ok() ? validate_policy_side(view, memory) : status;
}

}  // namespace orchard
