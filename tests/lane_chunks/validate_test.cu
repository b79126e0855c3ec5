// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// heap::validate() accepts chunks of arrays, and finds faults that are planted in their records.

#include <gmock/gmock.h>

#include "absl/strings/str_format.h"
#include "tests/lane_chunks/arrays_fixture.hpp"

namespace orchard::test {
namespace {

using element = cell<1>;
using ::testing::HasSubstr;

class lane_chunks_validate : public arrays_contract {
protected:
    /// Returns the result of validate() while a word is changed; restores the word.
    template <class Word>
    std::string finding(const heap_peer& peer, Word* at, std::uint64_t value) {
        planted_fault fault(peer);
        fault.set(at, value);
        const absl::Status s = h().validate();
        EXPECT_EQ(s.code(), absl::StatusCode::kInternal);
        return std::string(s.message());
    }
};
INSTANTIATE_TEST_SUITE_P(all, lane_chunks_validate, ::testing::Values(heap_cases()[0], heap_cases()[4]), case_name);

TEST_P(lane_chunks_validate, a_record_of_segments) {
    const auto got =
        allocate_arrays<element>(std::vector<std::uint64_t>(7, 200'000), layout::interleaved(tile::b4), 32);
    expect_valid("as it is");
    const heap_peer peer(h());
    const std::uint32_t first = peer.segment_of(as_number(got[0].chunk()));
    device::chunk_record& record = peer.view().records[first];
    const std::string chunk = absl::StrFormat("chunk at segment %d: ", first);
    ASSERT_EQ(peer.read(&record.lanes), device::interleaved_flag | 7u);
    ASSERT_EQ(peer.read(&record.offset[6]), 0u) << "one sub-array for 7 of 8";
    EXPECT_THAT(finding(peer, &record.lanes, 7), HasSubstr(chunk + "block 0 is empty"));
    EXPECT_THAT(finding(peer, &record.lanes, device::interleaved_flag | 33), HasSubstr(chunk));
    EXPECT_THAT(finding(peer, &record.lanes, device::interleaved_flag), HasSubstr(chunk));
    EXPECT_THAT(finding(peer, &record.offset[3], 1), HasSubstr(chunk + "block 3 is empty"));
    EXPECT_THAT(finding(peer, &record.offset[7], 0), HasSubstr(chunk));
    EXPECT_THAT(finding(peer, &record.live, 1 << 7), HasSubstr(chunk));
    free_arrays(got);
    expect_empty();
}

TEST_P(lane_chunks_validate, a_record_of_a_portion) {
    const auto got = allocate_arrays<element>(std::vector<std::uint64_t>(6, 20'000), layout::interleaved(tile::b4), 32);
    expect_valid("as it is");
    const heap_peer peer(h());
    const std::uint64_t at = as_number(got[0].chunk()) - as_number(peer.view().base);
    device::portion_record& record = peer.view().portion_records[at / big_page_bytes];
    const std::uint64_t shape = peer.read(&record.shape);
    ASSERT_EQ(shape & 0xff, device::interleaved_flag | 6u);
    EXPECT_THAT(finding(peer, &record.shape, shape & ~std::uint64_t{device::interleaved_flag}), HasSubstr("is empty"));
    // Four lanes begin at 0, two after them: the order is wrong.
    const std::uint64_t third = peer.read(&record.offsets[2]);
    ASSERT_EQ(third & 0xffff, third >> 16);
    EXPECT_THAT(finding(peer, &record.offsets[2], third - (1 << 16)), HasSubstr("block 4 is empty"));
    free_arrays(got);
    expect_empty();
}

}  // namespace
}  // namespace orchard::test
