// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Rules F1, F2 and F4: the contents of a batch, and the faults that a flush drops.

#include "uvm/model/fault_buffer.hpp"

#include <gtest/gtest.h>

namespace orchard::uvm_model {
namespace {

std::vector<std::uint64_t> pages_of(const fault_batch& batch) {
    std::vector<std::uint64_t> pages;
    for (const fault& f : batch.faults) {
        pages.push_back(f.page);
    }
    return pages;
}

using list = std::vector<std::uint64_t>;

TEST(fault_buffer, a_batch_is_what_has_arrived_sorted_by_page) {
    fault_buffer buffer;
    fault_batch batch;
    EXPECT_EQ(buffer.first_arrival(), never);
    buffer.push({30, 1, false});
    buffer.push({10, 9, false});
    buffer.push({20, 4, false});
    EXPECT_EQ(buffer.first_arrival(), 10);
    buffer.fetch(5, 256, batch);
    EXPECT_TRUE(batch.faults.empty());
    buffer.fetch(20, 256, batch);
    EXPECT_EQ(pages_of(batch), (list{4, 9}));
    EXPECT_EQ(buffer.size(), 1u);
}

TEST(fault_buffer, duplicates_count_as_entries) {
    fault_buffer buffer;
    fault_batch batch;
    for (int i = 0; i < 300; ++i) {
        buffer.push({i, static_cast<std::uint64_t>(i % 2), i % 3 == 0});
    }
    buffer.fetch(1000, 256, batch);
    EXPECT_EQ(batch.faults.size(), 256u);
    EXPECT_EQ(batch.duplicates, 254u);
    EXPECT_TRUE(batch.faults.front().write) << "the most intrusive access of a page comes first";
    EXPECT_EQ(buffer.size(), 44u);
}

TEST(fault_buffer, entries_of_one_moment_keep_their_order) {
    fault_buffer buffer;
    fault_batch batch;
    for (const std::uint64_t page : {7u, 3u, 5u}) {
        buffer.push({10, page, false});
    }
    buffer.fetch(10, 2, batch);
    EXPECT_EQ(pages_of(batch), (list{3, 7}));
}

TEST(fault_buffer, a_flush_drops_what_the_driver_knew_of) {
    for (const bool update_put : {false, true}) {
        fault_buffer buffer;
        fault_batch batch;
        for (nanoseconds t = 0; t < 10; ++t) {
            buffer.push({t, static_cast<std::uint64_t>(t), false});
        }
        buffer.fetch(5, 4, batch);  // knows of faults 0 to 5, takes 0 to 3
        EXPECT_EQ(pages_of(batch), (list{0, 1, 2, 3}));
        EXPECT_EQ(buffer.flush(8, update_put), update_put ? 5u : 2u);
        buffer.fetch(20, 256, batch);
        EXPECT_EQ(pages_of(batch), update_put ? (list{9}) : (list{6, 7, 8, 9}));
    }
}

TEST(fault_buffer, the_put_pointer_is_not_read_while_known_entries_are_left) {
    fault_buffer buffer;
    fault_batch batch;
    for (nanoseconds t = 0; t < 10; ++t) {
        buffer.push({t, static_cast<std::uint64_t>(t), false});
    }
    buffer.fetch(5, 4, batch);
    buffer.fetch(9, 256, batch);
    EXPECT_EQ(pages_of(batch), (list{4, 5}));
    buffer.fetch(9, 256, batch);
    EXPECT_EQ(pages_of(batch), (list{6, 7, 8, 9}));
}

}  // namespace
}  // namespace orchard::uvm_model
