// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Chunks with tails: their placement by the service, their return, and the end of a segment's use for portions.

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>
#include <vector>

#include "tests/support/service_rig.hpp"

namespace orchard {
namespace {

using mailbox::grant;
using mailbox::response;
using mailbox::response_status;
using rig::ring_client;
using rig::service_rig;
using rig::service_setup;

/// A rig with a client; requests are answered at once.
struct chunk_desk {
    explicit chunk_desk(const service_setup& s = {}) : host{s}, client{host.box} {}

    response answered() {
        host.service.poll_once();
        EXPECT_TRUE(host.service.validate().ok()) << host.service.validate();
        return client.take().value_or(response{});
    }
    /// Returns the grant; it has no segment if the request failed.
    grant ask(std::uint32_t segments, std::uint32_t leaves) {
        client.ask_chunk(segments, leaves);
        last = answered();
        if (last.status != response_status::granted) {
            return {{no_segment, 0}, leaf_index{0}, leaf_count{0}};
        }
        return mailbox::granted_by(last, segments, leaves);
    }
    response_status give_back(std::uint32_t first, std::uint32_t count) {
        client.give_back(first, count);
        return answered().status;
    }
    response_status give_back_portion(std::uint32_t block, std::uint32_t leaf) {
        client.give_back_portion(block, leaf);
        return answered().status;
    }
    const service_counters& counters() const { return host.service.counters(); }

    service_rig host;
    ring_client client;
    response last;
};

void expect_tail(const grant& g, std::uint32_t block, std::uint32_t leaf) {
    EXPECT_EQ(g.tail_block(), segment_index{block});
    EXPECT_EQ(g.leaf, leaf_index{leaf});
}

TEST(ServicePortions, LieSideBySideInOneSegment) {
    chunk_desk d;
    expect_tail(d.ask(0, 9), 0, 0);
    expect_tail(d.ask(0, 9), 0, 9);
    expect_tail(d.ask(0, 14), 0, 18);
    expect_tail(d.ask(0, 1), 1, 0);
    EXPECT_EQ(d.counters().segments_granted.get(), 2u);
    EXPECT_EQ(d.counters().portions_granted.get(), 4u);
    EXPECT_EQ(d.counters().portion_blocks.get(), 2u);
}

TEST(ServicePortions, ATailFollowsItsSegmentsAndItsBlockTakesOthers) {
    chunk_desk d;
    const grant g = d.ask(2, 5);
    EXPECT_EQ(g.first, segment_index{0});
    expect_tail(g, 2, 0);
    expect_tail(d.ask(0, 27), 2, 5);
    EXPECT_EQ(d.ask(1, 0).first, segment_index{3});
    EXPECT_EQ(d.counters().segments_granted.get(), 4u);
}

TEST(ServicePortions, PaddedLeaveTheirSiblingsEmpty) {
    service_setup s;
    s.portions = portion_policy::padded;
    chunk_desk d(s);
    expect_tail(d.ask(0, 4), 0, 0);
    expect_tail(d.ask(0, 2), 0, 8);
    expect_tail(d.ask(0, 16), 1, 0);
    EXPECT_EQ(d.ask(0, 3).first, no_segment) << "padded portions are powers of two";
    EXPECT_EQ(d.last.status, response_status::rejected);
    EXPECT_EQ(d.counters().requests_rejected.get(), 1u);
}

TEST(ServicePortions, TheLastOneGivesTheSegmentBack) {
    chunk_desk d;
    d.ask(0, 9);
    d.ask(0, 9);
    EXPECT_EQ(d.give_back(0, 1), response_status::rejected) << "it holds portions";
    EXPECT_EQ(d.give_back_portion(0, 9), response_status::acknowledged);
    EXPECT_EQ(d.give_back_portion(0, 9), response_status::rejected) << "twice";
    EXPECT_EQ(d.give_back_portion(0, 1), response_status::rejected) << "none begins there";
    EXPECT_EQ(d.give_back_portion(1, 0), response_status::rejected) << "a segment without portions";
    EXPECT_EQ(d.give_back_portion(9999, 0), response_status::rejected) << "no segment at all";
    EXPECT_EQ(d.counters().segments_granted.get(), 1u);
    EXPECT_EQ(d.give_back_portion(0, 0), response_status::acknowledged);
    EXPECT_EQ(d.counters().segments_granted.get(), 0u);
    EXPECT_EQ(d.counters().requests_rejected.get(), 5u);
    EXPECT_EQ(d.ask(256, 0).first, segment_index{0}) << "all of it is whole again";
}

TEST(ServicePortions, SayWhyThereIsNone) {
    chunk_desk d;
    EXPECT_EQ(d.ask(256, 1).first, no_segment);
    EXPECT_EQ(d.last.status, response_status::too_large);
    EXPECT_EQ(d.ask(255, 1).first, segment_index{0});
    expect_tail(d.ask(0, 31), 255, 1);
    EXPECT_EQ(d.ask(0, 1).first, no_segment);
    EXPECT_EQ(d.last.status, response_status::out_of_memory);
    EXPECT_EQ(d.ask(1, 1).first, no_segment);
    EXPECT_EQ(d.last.status, response_status::out_of_memory);
    for (std::uint32_t i = 0; i < 255; i += 2) {
        EXPECT_EQ(d.give_back(i, 1), response_status::acknowledged);
    }
    EXPECT_EQ(d.ask(1, 1).first, no_segment);
    EXPECT_EQ(d.last.status, response_status::fragmented);
    EXPECT_NE(d.ask(0, 31).first, no_segment);
}

TEST(ServicePortions, WaitForMemoryThatIsBeingCommitted) {
    service_setup s;
    s.committed_at_start = 1;
    chunk_desk d(s);
    d.client.ask_chunk(1, 3);
    d.host.service.poll_once();
    EXPECT_FALSE(d.client.take().has_value());
    EXPECT_EQ(d.counters().requests_parked.get(), 1u);
    while (d.host.grower.step()) {
    }
    const grant g = mailbox::granted_by(d.answered(), 1, 3);
    EXPECT_EQ(g.first, segment_index{0});
    expect_tail(g, 1, 0);
}

// A request that waits for a commit is tried again once a portion that shares its segment with others is free. Nothing
// else tells the service of that room: no segment becomes free, and the commit goes on.
TEST(ServicePortions, TheRoomOfOneServesARequestThatWaits) {
    service_setup s;
    s.committed_at_start = 1;
    chunk_desk d(s);
    expect_tail(d.ask(0, 20), 0, 0);
    expect_tail(d.ask(0, 12), 0, 20);
    const auto waiting = d.client.ask_chunk(0, 9);
    d.host.service.poll_once();
    d.host.service.poll_once();
    ASSERT_FALSE(d.client.take().has_value());
    ASSERT_EQ(d.counters().requests_parked.get(), 1u);
    EXPECT_EQ(d.give_back_portion(0, 0), response_status::acknowledged);
    const response served = d.answered();
    EXPECT_EQ(rig::id_of(served), waiting);
    ASSERT_EQ(served.status, response_status::granted);
    expect_tail(mailbox::granted_by(served, 0, 9), 0, 0);
}

/// Random chunks are taken and returned: no leaf has two owners, and in the end all segments are free.
class random_chunks : public ::testing::TestWithParam<portion_policy> {};
INSTANTIATE_TEST_SUITE_P(ServicePortions, random_chunks,
                         ::testing::Values(portion_policy::packed, portion_policy::padded),
                         [](const auto& i) { return i.param == portion_policy::packed ? "packed" : "padded"; });

TEST_P(random_chunks, never_overlap) {
    service_setup s;
    s.portions = GetParam();
    chunk_desk d(s);
    std::mt19937 random(7);
    std::vector<grant> held;
    std::vector<bool> taken(256 * leaves_per_segment, false);
    const auto mark = [&](const grant& g, bool now) {
        const std::uint32_t first = to_underlying(g.first) * leaves_per_segment;
        const std::uint32_t tail = to_underlying(g.tail_block()) * leaves_per_segment + to_underlying(g.leaf);
        const auto set = [&](std::uint32_t begin, std::uint32_t n) {
            for (std::uint32_t i = begin; i < begin + n; ++i) {
                ASSERT_NE(taken[i], now) << "leaf " << i;
                taken[i] = now;
            }
        };
        set(first, g.count * leaves_per_segment);
        set(tail, to_underlying(g.leaves));
    };
    for (int step = 0; step < 4000; ++step) {
        if (random() % 5 < 3) {
            const auto k = static_cast<std::uint32_t>(random() % 3);
            const auto asked = static_cast<std::uint32_t>(random() % leaves_per_segment);
            const leaf_count leaves = portion_leaves(GetParam(), leaf_count{asked});
            const grant g =
                k + to_underlying(leaves) != 0 ? d.ask(k, to_underlying(leaves)) : grant{{no_segment, 0}, {}, {}};
            if (g.first != no_segment) {
                ASSERT_NO_FATAL_FAILURE(mark(g, true));
                held.push_back(g);
            }
        } else if (!held.empty()) {
            std::swap(held[random() % held.size()], held.back());
            const grant g = held.back();
            held.pop_back();
            mark(g, false);
            if (g.count != 0) {
                ASSERT_EQ(d.give_back(to_underlying(g.first), g.count), response_status::acknowledged);
            }
            if (to_underlying(g.leaves) != 0) {
                ASSERT_EQ(d.give_back_portion(to_underlying(g.tail_block()), to_underlying(g.leaf)),
                          response_status::acknowledged);
            }
        }
    }
    for (const grant& g : held) {
        if (g.count != 0) {
            d.give_back(to_underlying(g.first), g.count);
        }
        if (to_underlying(g.leaves) != 0) {
            d.give_back_portion(to_underlying(g.tail_block()), to_underlying(g.leaf));
        }
    }
    EXPECT_EQ(d.counters().segments_granted.get(), 0u);
    EXPECT_EQ(d.counters().portions_granted.get(), 0u);
    EXPECT_EQ(d.counters().requests_rejected.get(), 0u);
}

/// Requests that are served in one turn, which grants many together, get the places that they get one by one.
TEST_P(random_chunks, lie_where_they_lie_one_by_one) {
    service_setup s;
    s.portions = GetParam();
    chunk_desk together(s);
    chunk_desk alone(s);
    std::mt19937 random(11);
    // Of each: the request, and the response in the order of slots.
    std::vector<grant> held;
    for (int step = 0; step < 500; ++step) {
        struct asked {
            segment_run run;
            std::uint32_t leaves;
            mailbox::request_kind kind;
            bool or_fewer;
        };
        std::vector<asked> all;
        for (std::size_t n = random() % 12; n != 0; --n) {
            const auto leaves = to_underlying(
                portion_leaves(GetParam(), leaf_count{static_cast<std::uint32_t>(random() % leaves_per_segment)}));
            const std::uint32_t least = leaves != 0 && random() % 4 == 0 ? 0 : 1;
            const auto k = least + static_cast<std::uint32_t>(random() % 3 == 0 ? random() % 5 : 0);
            const bool or_fewer = random() % 16 == 0;
            all.push_back({{segment_index{0}, k}, or_fewer ? 0 : leaves, mailbox::request_kind::grant, or_fewer});
        }
        for (std::size_t n = random() % 12; n != 0 && !held.empty(); --n) {
            std::swap(held[random() % held.size()], held.back());
            const grant g = held.back();
            held.pop_back();
            if (g.count != 0) {
                all.push_back({{g.first, g.count}, 0, mailbox::request_kind::give_back, false});
            }
            if (to_underlying(g.leaves) != 0) {
                const auto run = mailbox::request::return_of(g.tail_block(), g.leaf).run;
                all.push_back({run, 0, mailbox::request_kind::give_back, false});
            }
        }
        std::map<std::uint32_t, std::size_t> number;  // of a slot's request
        std::vector<response> one_by_one;
        for (std::size_t i = 0; i < all.size(); ++i) {
            const asked& a = all[i];
            number[together.client.post(a.kind, a.run, a.or_fewer, a.leaves).slot] = i;
            alone.client.post(a.kind, a.run, a.or_fewer, a.leaves);
            one_by_one.push_back(alone.answered());
        }
        together.host.service.poll_once();
        ASSERT_TRUE(together.host.service.validate().ok()) << together.host.service.validate();
        std::size_t responses = 0;
        while (const auto r = together.client.take()) {
            ++responses;
            const std::size_t i = number.at(r->slot);
            ASSERT_EQ(r->status, one_by_one[i].status) << "step " << step << ", request " << i;
            ASSERT_EQ(r->run, one_by_one[i].run) << "step " << step << ", request " << i;
            if (r->status == response_status::granted) {
                held.push_back(mailbox::granted_by(*r, all[i].run.count, all[i].leaves));
            }
        }
        ASSERT_EQ(responses, all.size());
        ASSERT_EQ(together.counters().segments_granted.get(), alone.counters().segments_granted.get());
    }
    EXPECT_EQ(together.counters().requests_rejected.get(), 0u);
    EXPECT_EQ(together.counters().grants.get(), alone.counters().grants.get());
}

}  // namespace
}  // namespace orchard
