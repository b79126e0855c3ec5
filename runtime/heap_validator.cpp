// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "runtime/heap_validator.hpp"

#include <bit>

#include "absl/strings/str_format.h"
#include "runtime/metadata_copy.hpp"
#include "runtime/policy_validator.hpp"

namespace orchard {
namespace {

using device::chunk_record;
using device::descriptor;
using device::heap_view;
using device::segment_kind;
using simt::order;
using word64 = simt::device_word<std::uint64_t>;
using word32 = simt::device_word<std::uint32_t>;

/// Who owns each segment, as far as the device says.
class ownership {
public:
    explicit ownership(std::uint32_t segments) : owner_(segments, nullptr) {}

    absl::Status take(std::uint32_t segment, const char* who) {
        if (segment >= owner_.size()) {
            return absl::InternalError(
                absl::StrFormat("a %s lies in segment %d, the heap has %d", who, segment, owner_.size()));
        }
        if (owner_[segment] != nullptr) {
            return absl::InternalError(
                absl::StrFormat("segment %d belongs to a %s and to a %s", segment, owner_[segment], who));
        }
        owner_[segment] = who;
        return absl::OkStatus();
    }
    absl::Status compare(const std::vector<bool>& granted) const {
        for (std::uint32_t i = 0; i < owner_.size(); ++i) {
            if ((owner_[i] != nullptr) != granted[i]) {
                return absl::InternalError(
                    granted[i]
                        ? absl::StrFormat("segment %d was granted and is nowhere on the device", i)
                        : absl::StrFormat("segment %d is free for the host and a %s on the device", i, owner_[i]));
            }
        }
        return absl::OkStatus();
    }

private:
    std::vector<const char*> owner_;
};

class checker {
public:
    checker(const heap_view& view, backing& memory) : view_{view}, memory_{memory}, owners_{view.segments} {}

    absl::Status run(const std::vector<bool>& granted) {
        auto descriptors = copy_of(memory_, view_.descriptors, view_.segments);
        if (!descriptors.ok()) {
            return descriptors.status();
        }
        for (const word64& d : *descriptors) {
            descriptors_.push_back(d.load<order::relaxed>());
        }
        for (auto step : {&checker::check_tables, &checker::check_chunks, &checker::check_magazine,
                          &checker::check_bitmaps, &checker::check_slots}) {
            if (absl::Status s = (this->*step)(); !s.ok()) {
                return s;
            }
        }
        return owners_.compare(granted);
    }

private:
    // Every slab is in its class's table, where its descriptor says, and nothing else is.
    absl::Status check_tables() {
        auto state = copy_of(memory_, view_.state, 1);
        if (!state.ok()) {
            return state.status();
        }
        std::uint32_t entries = 0;
        for (std::uint32_t c = 0; c < class_count; ++c) {
            const std::uint32_t count = (*state)[0].slabs[c].count.load<order::relaxed>();
            if (count > view_.segments) {
                return absl::InternalError(
                    absl::StrFormat("class %d: %d slabs in a table of %d", c, count, view_.segments));
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
                if (entry == device::growing_entry) {
                    return absl::InternalError(
                        absl::StrFormat("class %d: table entry %d waits for a slab that nobody gets", c, i));
                }
                ++entries;
                if (absl::Status s = owners_.take(entry - 1, "slab"); !s.ok()) {
                    return s;
                }
                const std::uint64_t d = descriptors_[entry - 1];
                const auto record = copy_of(memory_, &view_.records[entry - 1], 1);
                if (!record.ok()) {
                    return record.status();
                }
                const std::uint32_t place = (*record)[0].place.get();
                if (!descriptor::is_slab_of(d, c) || descriptor::extent(d) != page_reciprocal(c) || place != i) {
                    return absl::InternalError(absl::StrFormat(
                        "class %d: table entry %d is segment %d, whose descriptor %#x and place %d do not say so", c, i,
                        entry - 1, d, place));
                }
            }
        }
        std::uint32_t slabs = 0;
        for (const std::uint64_t d : descriptors_) {
            slabs += descriptor::kind(d) == segment_kind::slab ? 1 : 0;
        }
        return slabs == entries
                   ? absl::OkStatus()
                   : absl::InternalError(absl::StrFormat("%d segments are slabs, the tables have %d", slabs, entries));
    }

    absl::Status check_chunks() {
        for (std::uint32_t i = 0; i < view_.segments; ++i) {
            const std::uint64_t d = descriptors_[i];
            if (descriptor::kind(d) != segment_kind::chunk || descriptor::extent(d) != i) {
                continue;
            }
            auto record = copy_of(memory_, &view_.records[i], 1);
            if (!record.ok()) {
                return record.status();
            }
            if (absl::Status s = check_chunk(i, (*record)[0]); !s.ok()) {
                return s;
            }
        }
        for (std::uint32_t i = 0; i < view_.segments; ++i) {
            const std::uint64_t d = descriptors_[i];
            if (descriptor::kind(d) == segment_kind::chunk && descriptor::extent(d) != i &&
                descriptors_with_block_[i] == 0) {
                return absl::InternalError(
                    absl::StrFormat("segment %d says it belongs to the chunk at %d, which has no block there", i,
                                    descriptor::extent(d)));
            }
        }
        return absl::OkStatus();
    }

    absl::Status check_chunk(std::uint32_t first, const chunk_record& r) {
        const std::uint32_t lanes = r.lanes.get();
        const std::uint32_t live = r.live.load<order::relaxed>();
        if (lanes == 0 || lanes > simt::warp_size || live == 0 || (lanes < 32 && live >> lanes != 0) ||
            segments_for(r.offset[lanes].get()) != r.segments.get()) {
            return absl::InternalError(absl::StrFormat("chunk at segment %d: %d lanes, live mask %#x, %d segments",
                                                       first, lanes, live, r.segments.get()));
        }
        for (std::uint32_t i = 0; i < lanes; ++i) {
            if (r.offset[i].get() >= r.offset[i + 1].get()) {
                return absl::InternalError(absl::StrFormat("chunk at segment %d: block %d is empty", first, i));
            }
            const std::uint32_t at = first + static_cast<std::uint32_t>(r.offset[i].get() >> segment_shift);
            if (at >= view_.segments || descriptor::kind(descriptors_[at]) != segment_kind::chunk ||
                descriptor::extent(descriptors_[at]) != first) {
                return absl::InternalError(absl::StrFormat(
                    "chunk at segment %d: block %d begins in segment %d, which does not say so", first, i, at));
            }
            descriptors_with_block_[at] = 1;
        }
        for (std::uint32_t i = 0; i < r.segments.get(); ++i) {
            if (absl::Status s = owners_.take(first + i, "chunk"); !s.ok()) {
                return s;
            }
        }
        return absl::OkStatus();
    }

    absl::Status check_magazine() {
        auto words = copy_of(memory_, view_.magazine, view_.magazine_words());
        auto summary = copy_of(memory_, view_.magazine_summary, (view_.magazine_words() + 63) / 64);
        auto state = copy_of(memory_, view_.state, 1);
        if (!words.ok() || !summary.ok() || !state.ok()) {
            return !words.ok() ? words.status() : !summary.ok() ? summary.status() : state.status();
        }
        std::uint64_t total = 0;
        for (std::uint32_t w = 0; w < view_.magazine_words(); ++w) {
            std::uint64_t bits = (*words)[w].load<order::relaxed>();
            const bool marked = ((*summary)[w / 64].load<order::relaxed>() >> (w % 64) & 1) != 0;
            if (bits != 0 && !marked) {
                return absl::InternalError(absl::StrFormat("magazine word %d is not in the summary", w));
            }
            total += static_cast<std::uint64_t>(std::popcount(bits));
            for (; bits != 0; bits &= bits - 1) {
                const std::uint32_t segment = w * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
                if (absl::Status s = owners_.take(segment, "segment in the magazine"); !s.ok()) {
                    return s;
                }
            }
        }
        const std::uint64_t level = (*state)[0].magazine_level.word.load<order::relaxed>();
        return level == total
                   ? absl::OkStatus()
                   : absl::InternalError(absl::StrFormat("the magazine holds %d segments and says %d", total, level));
    }

    absl::Status check_bitmaps() {
        return for_each_bitmap(
            view_, memory_, [](std::uint32_t) { return device::bitmap_words; },
            [this](std::uint32_t segment, const std::vector<word64>& words) {
                const std::uint64_t d = descriptors_[segment];
                const bool slab = descriptor::kind(d) == segment_kind::slab;
                const std::uint32_t c = descriptor::page_class(d);
                for (std::uint32_t w = 0; w < words.size(); ++w) {
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

    absl::Status check_slots() {
        for (std::uint32_t s = 0; s < view_.shards; ++s) {
            const device::mailbox_client& box = view_.mailboxes[s];
            auto words = copy_of(memory_, box.device->slots(), box.shape.slots);
            if (!words.ok()) {
                return words.status();
            }
            for (std::uint32_t i = 0; i < words->size(); ++i) {
                const std::uint64_t word = (*words)[i].load<order::relaxed>();
                if ((word & mailbox::slot_word::pending) != 0) {
                    return absl::InternalError(
                        absl::StrFormat("mailbox %d: slot %d is still in use (%#x)", s, i, word));
                }
            }
        }
        return absl::OkStatus();
    }

    const heap_view& view_;
    backing& memory_;
    ownership owners_;
    std::vector<std::uint64_t> descriptors_;
    std::vector<char> descriptors_with_block_ = std::vector<char>(view_.segments, 0);
};

}  // namespace

absl::Status validate_device_side(const heap_view& view, backing& memory, const std::vector<bool>& granted) {
    absl::Status status = checker(view, memory).run(granted);
    return status.ok() ? validate_policy_side(view, memory) : status;
}

}  // namespace orchard
