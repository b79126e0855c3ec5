// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// heap::validate() finds faults that are planted in each structure, and names them.

#include <gmock/gmock.h>

#include <bit>

#include "absl/strings/str_format.h"
#include "tests/support/heap_fixture.hpp"
#include "tests/support/heap_peer.hpp"

namespace orchard::test {
namespace {

using ::testing::HasSubstr;

/// A heap with a slab of 80-byte pages, a chunk of two lanes in 3 segments, and segments in the segment cache.
class heap_validate : public heap_contract {
protected:
    void SetUp() override {
        heap_contract::SetUp();
        if (IsSkipped()) {
            return;
        }
        page_ = allocate_one(80);
        chunk_ = allocate({segments(1) + 256, segments(2) - 256}, 2);
        ASSERT_NO_FATAL_FAILURE(expect_disjoint({page_, chunk_[0], chunk_[1]}));
        expect_valid("before the fault");
        peer_.emplace(h());
        const heap_peer& peer = *peer_;
        slab_ = peer.segment_of(page_.address);
        first_ = peer.segment_of(chunk_[0].address);
        while (word_ < view().cache_words() && peer.cache_word(word_) == 0) {
            ++word_;
        }
        ASSERT_LT(word_, view().cache_words()) << "this test needs segments in the segment cache";
        in_cache_ = word_ * 64 + static_cast<std::uint32_t>(std::countr_zero(peer.cache_word(word_)));
    }

    [[nodiscard]] const device::heap_view& view() const { return peer_->view(); }
    /// Returns the result of validate() while these words are changed; restores them.
    template <class... Changes>
    std::string finding(const Changes&... changes) {
        planted_fault fault(*peer_);
        (fault.set(changes.first, changes.second), ...);
        const absl::Status s = h().validate();
        EXPECT_EQ(s.code(), absl::StatusCode::kInternal);
        return std::string(s.message());
    }
    template <class Word>
    static std::pair<Word*, std::uint64_t> becomes(Word* at, std::uint64_t value) {
        return {at, value};
    }
    [[nodiscard]] std::uint64_t slab_class() const { return class_of(80); }
    /// Returns a segment that the host holds, no part of which is on the device.
    [[nodiscard]] std::uint32_t host_segment() const { return view().segments - 1; }

    block page_;
    std::vector<block> chunk_;
    std::optional<heap_peer> peer_;
    std::uint32_t slab_ = 0;
    std::uint32_t first_ = 0;
    std::uint32_t word_ = 0;
    std::uint32_t in_cache_ = 0;
};
INSTANTIATE_TEST_SUITE_P(all, heap_validate,
                         ::testing::Values(heap_cases()[0], heap_cases()[2], heap_cases()[4], heap_cases()[6]),
                         case_name);

TEST_P(heap_validate, a_bitmap_bit_that_stands_for_no_page) {
    const std::uint32_t last = class_words(class_of(80)) - 1;
    auto* at = &view().bitmap(slab_)[last];
    EXPECT_THAT(finding(becomes(at, peer_->read(at) | std::uint64_t{1} << 63)),
                HasSubstr(absl::StrFormat("segment %d: bitmap word %d", slab_, last)));
    // Words after those of the slab's class have a defined value only after they were cleared for another class.
    EXPECT_THAT(finding(becomes(&view().cleared_words[slab_], device::bitmap_words), becomes(at + 1, 1)),
                HasSubstr(absl::StrFormat("segment %d: bitmap word %d", slab_, last + 1)));
}

TEST_P(heap_validate, a_bitmap_bit_where_there_is_no_slab) {
    EXPECT_THAT(
        finding(becomes(&view().cleared_words[first_], device::bitmap_words), becomes(&view().bitmap(first_)[5], 8)),
        HasSubstr(absl::StrFormat("segment %d: bitmap word 5 is 0x8", first_)));
}

TEST_P(heap_validate, a_cache_word_that_the_summary_hides) {
    EXPECT_THAT(finding(becomes(&view().cache_summary[word_ / 64], 0)),
                HasSubstr(absl::StrFormat("cache word %d is not in the summary", word_)));
}

TEST_P(heap_validate, a_cache_level_that_is_wrong) {
    auto* level = &view().state->cache_level.word;
    const std::uint64_t n = peer_->read(level);
    EXPECT_THAT(finding(becomes(level, n + 1)),
                HasSubstr(absl::StrFormat("the segment cache holds %d and says %d", n, n + 1)));
}

TEST_P(heap_validate, a_descriptor_that_disagrees_with_the_slab_table) {
    auto* d = &view().descriptor(slab_);
    const std::uint64_t right = peer_->read(d);
    const std::string expected = absl::StrFormat("class %d: table entry 0 is segment %d", slab_class(), slab_);
    EXPECT_THAT(finding(becomes(d, 0)), HasSubstr(expected));
    EXPECT_THAT(finding(becomes(d, right + (1 << 4))), HasSubstr(expected));                  // another class
    EXPECT_THAT(finding(becomes(d, right + (std::uint64_t{1} << 32))), HasSubstr(expected));  // another place
}

TEST_P(heap_validate, a_slab_that_no_table_has) {
    EXPECT_THAT(finding(becomes(view().table(class_of(80)), 0)), HasSubstr("1 segments are slabs, the tables have 0"));
    EXPECT_THAT(finding(becomes(&view().state->slabs[slab_class()].count, view().max_slabs + 1)),
                HasSubstr(absl::StrFormat("class %d: %d slabs in a table of %d", slab_class(), view().max_slabs + 1,
                                          view().max_slabs)));
}

TEST_P(heap_validate, a_place_that_waits_for_a_slab) {
    auto* count = &view().state->slabs[slab_class()].count;
    const std::uint64_t n = peer_->read(count);
    EXPECT_THAT(finding(becomes(view().table(class_of(80)) + n, device::growing_entry), becomes(count, n + 1)),
                HasSubstr(absl::StrFormat("class %d: table entry %d is reserved for a slab that no group creates",
                                          slab_class(), n)));
}

TEST_P(heap_validate, a_segment_with_two_owners) {
    const std::uint32_t word = slab_ / 64;
    auto* level = &view().state->cache_level.word;
    EXPECT_THAT(
        finding(becomes(&view().cache[word], peer_->cache_word(word) | std::uint64_t{1} << (slab_ % 64)),
                becomes(&view().cache_summary[word / 64], ~std::uint64_t{0}), becomes(level, peer_->read(level) + 1)),
        HasSubstr(absl::StrFormat("segment %d belongs to a slab and to a segment in the segment cache", slab_)));
}

TEST_P(heap_validate, a_granted_segment_that_is_lost) {
    auto* level = &view().state->cache_level.word;
    EXPECT_THAT(
        finding(becomes(&view().cache[word_], peer_->cache_word(word_) & ~(std::uint64_t{1} << (in_cache_ % 64))),
                becomes(level, peer_->read(level) - 1)),
        HasSubstr(absl::StrFormat("segment %d was granted and is nowhere on the device", in_cache_)));
}

TEST_P(heap_validate, a_segment_that_the_host_did_not_grant) {
    const std::uint32_t word = host_segment() / 64;
    auto* level = &view().state->cache_level.word;
    EXPECT_THAT(
        finding(becomes(&view().cache[word], peer_->cache_word(word) | std::uint64_t{1} << (host_segment() % 64)),
                becomes(&view().cache_summary[word / 64], ~std::uint64_t{0}), becomes(level, peer_->read(level) + 1)),
        HasSubstr(absl::StrFormat("segment %d is free for the host", host_segment())));
}

TEST_P(heap_validate, a_chunk_record_that_makes_no_sense) {
    device::chunk_record& record = view().records[first_];
    const std::string expected = absl::StrFormat("chunk at segment %d: ", first_);
    EXPECT_THAT(finding(becomes(&record.live, 0)), HasSubstr(expected));
    EXPECT_THAT(finding(becomes(&record.live, 4)), HasSubstr(expected));
    EXPECT_THAT(finding(becomes(&record.lanes, 0)), HasSubstr(expected));
    EXPECT_THAT(finding(becomes(&record.lanes, 33)), HasSubstr(expected));
    EXPECT_THAT(finding(becomes(&record.segments, 5)), HasSubstr(expected));
    EXPECT_THAT(finding(becomes(&record.offset[1], 0)), HasSubstr(expected));
    EXPECT_THAT(finding(becomes(&record.offset[1], segments(2))), HasSubstr(expected));
}

TEST_P(heap_validate, a_descriptor_that_disagrees_with_its_chunk) {
    // The second lane's block begins in the chunk's second segment.
    EXPECT_THAT(finding(becomes(&view().descriptor(first_ + 1), 0)),
                HasSubstr(absl::StrFormat("chunk at segment %d: block 1 begins in segment %d", first_, first_ + 1)));
    EXPECT_THAT(finding(becomes(&view().descriptor(first_), 0)), HasSubstr(absl::StrFormat("at %d", first_)));
    EXPECT_THAT(finding(becomes(&view().descriptor(host_segment()), peer_->descriptor(first_ + 1))),
                HasSubstr(absl::StrFormat("segment %d says it belongs to the chunk at %d", host_segment(), first_)));
}

TEST_P(heap_validate, a_slot_without_a_response_to_come) {
    auto* slot = &view().mailbox.device->slots()[3];
    EXPECT_THAT(finding(becomes(slot, peer_->read(slot) | mailbox::slot_word::pending)),
                HasSubstr("mailbox: slot 3 is still in use"));
}

}  // namespace
}  // namespace orchard::test
