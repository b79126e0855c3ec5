// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The service's response to each kind of request, and its counters.

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "tests/support/service_rig.hpp"

namespace orchard {
namespace {

using mailbox::response;
using mailbox::response_status;
using rig::id_of;
using rig::ring_client;
using rig::service_rig;
using rig::service_setup;

/// A rig with a client; requests are answered at once.
struct desk {
    explicit desk(const service_setup& s = {}) : host{s}, client{host.box} {}

    response ask(std::uint32_t count) { return response_to(client.ask(count)); }
    response ask_or_fewer(std::uint32_t count) { return response_to(client.ask_or_fewer(count)); }
    response give_back(std::uint32_t first, std::uint32_t count) { return response_to(client.give_back(first, count)); }
    response response_to(ring_client::id id) {
        host.service.poll_once();
        const auto a = client.take();
        EXPECT_TRUE(a.has_value());
        if (!a) {
            return {};
        }
        EXPECT_EQ(id_of(*a), id);
        EXPECT_TRUE(host.service.validate().ok()) << host.service.validate();
        return *a;
    }
    void expect_grant(const response& a, std::uint32_t first) {
        EXPECT_EQ(a.status, response_status::granted);
        EXPECT_EQ(a.run.first, segment_index{first});
    }
    const service_counters& counters() const { return host.service.counters(); }

    service_rig host;
    ring_client client;
};

/// A request to extend a chunk gets exactly the segments that it names, or nothing.
TEST(Service, ExtendsAChunkByTheSegmentsBehindIt) {
    desk d;
    const auto extend = [&](std::uint32_t first, std::uint32_t count) {
        return d.response_to(d.client.extend(first, count));
    };
    d.expect_grant(d.ask(3), 0);
    d.expect_grant(extend(3, 2), 3);
    d.expect_grant(d.ask(1), 5);
    EXPECT_EQ(extend(5, 1).status, response_status::fragmented) << "in use";
    EXPECT_EQ(extend(4, 3).status, response_status::fragmented) << "in part in use";
    EXPECT_EQ(d.give_back(0, 5).status, response_status::acknowledged);
    d.expect_grant(extend(4, 1), 4);
    EXPECT_EQ(extend(4, 1).status, response_status::fragmented) << "twice";
    const std::uint32_t segments = service_setup{}.segments;
    EXPECT_EQ(extend(segments, 1).status, response_status::fragmented) << "behind the last one";
    EXPECT_EQ(extend(segments - 1, 2).status, response_status::fragmented) << "in part behind it";
    d.expect_grant(extend(segments - 1, 1), segments - 1);
    EXPECT_EQ(d.counters().requests_rejected.get(), 0u);
}

TEST(Service, GrantsTheLowestSegmentsFirst) {
    desk d;
    d.expect_grant(d.ask(1), 0);
    d.expect_grant(d.ask(1), 1);
    d.expect_grant(d.ask(4), 2);
    d.expect_grant(d.ask(1), 6);
    EXPECT_EQ(d.give_back(1, 1).status, response_status::acknowledged);
    EXPECT_EQ(d.give_back(3, 2).status, response_status::acknowledged);
    d.expect_grant(d.ask(2), 3);
    d.expect_grant(d.ask(1), 1);
    d.expect_grant(d.ask(100), 7);
    EXPECT_EQ(d.counters().grants.get(), 7u);
    EXPECT_EQ(d.counters().segments_granted.get(), 107u);
    EXPECT_EQ(d.counters().peak_segments_granted.get(), 107u);
    EXPECT_EQ(d.counters().segments_free.get(), 256u - 107u);
}

TEST(Service, AnExactGrantCarriesNoCountAndAFlexibleOneDoes) {
    desk d;
    EXPECT_EQ(d.ask(5).run.count, 0u);
    EXPECT_EQ(d.ask_or_fewer(5).run.count, 5u);
}

TEST(Service, OwnsAllSegmentsOfTheHeapAndNoOther) {
    service_setup s;
    s.segments = s.committed_at_start = 64;
    desk d(s);
    EXPECT_EQ(d.host.service.segments(), 64u);
    d.expect_grant(d.ask(1), 0);
    d.expect_grant(d.ask(63), 1);
    EXPECT_TRUE(d.host.service.is_granted(segment_index{63}));
    EXPECT_FALSE(d.host.service.is_granted(segment_index{64}));
    EXPECT_EQ(d.give_back(63, 1).status, response_status::acknowledged);
    EXPECT_EQ(d.give_back(64, 1).status, response_status::rejected);
    EXPECT_EQ(d.give_back(0, 255).status, response_status::rejected);
}

TEST(Service, ARefusalTellsHowMuchIsFree) {
    desk d;
    d.expect_grant(d.ask(256), 0);
    EXPECT_EQ(d.ask(1).free_segments(), 0u);
    for (std::uint32_t i = 0; i < 256; i += 2) {
        EXPECT_EQ(d.give_back(i, 1).status, response_status::acknowledged);
    }
    EXPECT_EQ(d.ask(2).free_segments(), 128u);
    EXPECT_EQ(d.ask(200).free_segments(), 128u);
}

TEST(Service, SaysWhyThereIsNoGrant) {
    desk d;
    EXPECT_EQ(d.ask(257).status, response_status::too_large);
    EXPECT_EQ(d.ask(0).status, response_status::too_large) << "no request for segments is for none";
    EXPECT_EQ(d.ask(max_segments - 1).status, response_status::too_large);
    d.expect_grant(d.ask(256), 0);
    EXPECT_EQ(d.ask(1).status, response_status::out_of_memory);
    for (std::uint32_t i = 0; i < 256; i += 2) {
        EXPECT_EQ(d.give_back(i, 1).status, response_status::acknowledged);
    }
    EXPECT_EQ(d.ask(2).status, response_status::fragmented);
    EXPECT_EQ(d.ask(128).status, response_status::fragmented);
    EXPECT_EQ(d.ask(129).status, response_status::out_of_memory);
    EXPECT_EQ(d.counters().segments_granted.get(), 128u);
    EXPECT_EQ(d.counters().peak_segments_granted.get(), 256u);
    EXPECT_EQ(d.host.service.longest_free_run(), 1u);
    EXPECT_EQ(d.counters().requests_parked.get(), 0u);
}

TEST(Service, AFlexibleGrantIsOfTheLongestRunThatThereIs) {
    desk d;
    d.expect_grant(d.ask(256), 0);
    EXPECT_EQ(d.ask_or_fewer(8).status, response_status::out_of_memory);
    d.give_back(10, 2);
    d.give_back(20, 5);
    d.give_back(30, 3);
    for (std::uint32_t i = 100; i < 160; i += 2) {
        d.give_back(i, 1);  // above an eighth of the range; below it the segment cache gets nothing
    }
    const response a = d.ask_or_fewer(8);
    EXPECT_EQ(a.status, response_status::granted);
    EXPECT_EQ(a.run, (segment_run{segment_index{20}, 5}));
    EXPECT_EQ(d.ask_or_fewer(2).run, (segment_run{segment_index{10}, 2})) << "the lowest, where a run is long enough";
}

// The last eighth of the range is reserved for requests that need it at once, even the last segment of the smallest
// heap.
TEST(Service, AFlexibleGrantIsRefusedWhereMemoryIsScarce) {
    desk d;
    d.expect_grant(d.ask(223), 0);
    EXPECT_EQ(d.ask_or_fewer(1).run, (segment_run{segment_index{223}, 1})) << "33 of 256 are not scarce";
    EXPECT_EQ(d.ask_or_fewer(1).status, response_status::fragmented) << "32 are: more than asked for, and refused";
    d.expect_grant(d.ask(32), 224);
}

// A request that was rejected comes again after a reclaim. No refill may take the memory that the reclaim has returned.
TEST(Service, AFlexibleGrantIsRefusedAfterALackUntilMoreThanHalfIsFree) {
    desk d;
    d.expect_grant(d.ask(256), 0);
    EXPECT_EQ(d.ask(1).status, response_status::out_of_memory);
    d.give_back(0, 128);
    EXPECT_EQ(d.ask_or_fewer(8).status, response_status::fragmented) << "more than asked for, and refused";
    d.expect_grant(d.ask(1), 0);
    d.give_back(128, 1);
    EXPECT_EQ(d.ask_or_fewer(8).status, response_status::fragmented) << "128 of 256 are not more than half";
    d.give_back(129, 1);
    EXPECT_EQ(d.ask_or_fewer(8).run, (segment_run{segment_index{1}, 8}));
    EXPECT_EQ(d.ask_or_fewer(8).run, (segment_run{segment_index{9}, 8})) << "the lack is over";
}

// The same for a request that could not be granted because it was larger than all free runs, though enough is free.
TEST(Service, AFlexibleGrantIsNotRefusedAfterALackIfMuchIsFree) {
    desk d;
    d.expect_grant(d.ask(256), 0);
    for (std::uint32_t i = 0; i < 256; i += 3) {
        d.give_back(i, i + 1 < 256 ? 2 : 1);
    }
    EXPECT_EQ(d.ask(3).status, response_status::fragmented);
    EXPECT_EQ(d.ask_or_fewer(8).run, (segment_run{segment_index{0}, 2}));
}

TEST(Service, AFlexibleGrantIsOfAtMostWhatAnAnswerCanSay) {
    desk d;
    const response a = d.ask_or_fewer(200);
    EXPECT_EQ(a.status, response_status::granted);
    EXPECT_EQ(a.run, (segment_run{segment_index{0}, mailbox::max_refill}));
    EXPECT_EQ(d.counters().segments_granted.get(), mailbox::max_refill);
}

// A refill requests a fixed number, however small the heap is.
TEST(Service, AFlexibleGrantOfMoreThanTheHeapOwnsIsOfFewer) {
    service_setup s;
    s.segments = s.committed_at_start = 8;
    desk d(s);
    const response a = d.ask_or_fewer(16);
    EXPECT_EQ(a.status, response_status::granted);
    EXPECT_EQ(a.run, (segment_run{segment_index{0}, 8}));
    EXPECT_EQ(d.ask_or_fewer(16).status, response_status::out_of_memory);
}

TEST(Service, RefusesWhatWasNotGrantedAndChangesNothing) {
    desk d;
    d.expect_grant(d.ask(10), 0);
    EXPECT_EQ(d.give_back(4, 1).status, response_status::acknowledged);
    const auto granted = d.counters().segments_granted.get();
    EXPECT_EQ(d.give_back(4, 1).status, response_status::rejected) << "twice";
    EXPECT_EQ(d.give_back(3, 3).status, response_status::rejected) << "in part";
    EXPECT_EQ(d.give_back(9, 2).status, response_status::rejected) << "in part never granted";
    EXPECT_EQ(d.give_back(255, 2).status, response_status::rejected) << "beyond the end";
    EXPECT_EQ(d.give_back(max_segments - 1, 255).status, response_status::rejected) << "far beyond the end";
    EXPECT_EQ(d.counters().requests_rejected.get(), 5u);
    EXPECT_EQ(d.counters().segments_granted.get(), granted);
    for (const std::uint32_t i : {0u, 3u, 5u, 9u}) {
        EXPECT_TRUE(d.host.service.is_granted(segment_index{i})) << i;
    }
    EXPECT_FALSE(d.host.service.is_granted(segment_index{4}));
    d.expect_grant(d.ask(1), 4);
}

TEST(Service, AnswersPings) {
    desk d;
    EXPECT_EQ(d.response_to(d.client.ping()).status, response_status::acknowledged);
    EXPECT_EQ(d.counters().pings.get(), 1u);
}

TEST(Service, PollSaysHowManyPostsAndBeatsEachTime) {
    desk d;
    const std::uint64_t polls = d.counters().polls.get();
    EXPECT_EQ(d.host.service.poll_once(), 0u);
    EXPECT_EQ(d.host.box.heartbeats(), 1u);
    for (int i = 0; i < 5; ++i) {
        d.client.ping();
    }
    EXPECT_FALSE(d.client.take().has_value());
    EXPECT_EQ(d.host.service.poll_once(), 5u);
    EXPECT_EQ(d.host.service.poll_once(), 0u);
    EXPECT_EQ(d.host.box.heartbeats(), 3u);
    EXPECT_EQ(d.counters().polls.get(), polls + 3);
}

TEST(Service, AnswersAtMostABatchInOnePoll) {
    service_setup s;
    s.shape = {1024, 8};
    desk d(s);
    for (std::uint32_t i = 0; i < segment_service::batch + 10; ++i) {
        d.client.ping();
    }
    EXPECT_EQ(d.host.service.poll_once(), segment_service::batch);
    EXPECT_EQ(d.host.service.poll_once(), 10u);
    EXPECT_EQ(d.counters().pings.get(), segment_service::batch + 10);
}

TEST(Service, AfterCloseGrantsAreRefusedAndReturnsTaken) {
    desk d;
    d.expect_grant(d.ask(3), 0);
    d.host.service.close();
    EXPECT_EQ(d.ask(1).status, response_status::closing);
    EXPECT_EQ(d.ask_or_fewer(1).status, response_status::closing);
    EXPECT_EQ(d.ask(100000).status, response_status::closing);
    EXPECT_EQ(d.give_back(0, 3).status, response_status::acknowledged);
    EXPECT_EQ(d.response_to(d.client.ping()).status, response_status::acknowledged);
    EXPECT_EQ(d.counters().segments_granted.get(), 0u);
}

// Compared with a model of one bit for each segment; with four slots and the narrowest tags, rings and tags wrap often.
TEST(Service, AnswersAsTheModelOverManyLaps) {
    for (const std::uint32_t tag_bits : {2u, 8u}) {
        service_setup s;
        s.shape = {4, tag_bits, 1, tag_bits};
        s.segments = s.committed_at_start = 130;
        desk d(s);
        std::vector<bool> granted(130);
        const auto longest_free = [&] {
            std::uint32_t best = 0;
            std::uint32_t here = 0;
            for (const bool taken : granted) {
                here = taken ? 0 : here + 1;
                best = std::max(best, here);
            }
            return best;
        };
        const auto lowest_run = [&](std::uint32_t k) {
            std::uint32_t here = 0;
            for (std::uint32_t i = 0; i < granted.size(); ++i) {
                here = granted[i] ? 0 : here + 1;
                if (here == k) {
                    return i + 1 - k;
                }
            }
            return 0xffffffffu;
        };
        std::map<std::uint32_t, std::uint32_t> mine;
        bool has_lacked = false;
        std::mt19937 random(tag_bits);
        for (int step = 0; step < 3000; ++step) {
            if (random() % 2 == 0) {
                const std::uint32_t k = random() % 4 == 0 ? static_cast<std::uint32_t>(random() % 40 + 1) : 1;
                const bool or_fewer = random() % 3 == 0;
                const response a = or_fewer ? d.ask_or_fewer(k) : d.ask(k);
                const auto left = static_cast<std::uint32_t>(std::count(granted.begin(), granted.end(), false));
                has_lacked = has_lacked && !(or_fewer && left * 2 > granted.size());
                const bool scarce = left * 8 <= granted.size() || has_lacked;
                const std::uint32_t count = or_fewer ? (scarce ? 0 : std::min(k, longest_free())) : k;
                const std::uint32_t first = count != 0 ? lowest_run(count) : 0xffffffffu;
                ASSERT_EQ(a.status == response_status::granted, first != 0xffffffffu) << "step " << step;
                if (a.status == response_status::granted) {
                    ASSERT_EQ(a.run, (segment_run{segment_index{first}, or_fewer ? count : 0}));
                    std::fill_n(granted.begin() + first, count, true);
                    mine[first] = count;
                } else {
                    has_lacked = has_lacked || !or_fewer;
                }
            } else if (!mine.empty()) {
                auto chosen = mine.lower_bound(static_cast<std::uint32_t>(random() % 130));
                chosen = chosen == mine.end() ? mine.begin() : chosen;
                ASSERT_EQ(d.give_back(chosen->first, chosen->second).status, response_status::acknowledged);
                std::fill_n(granted.begin() + chosen->first, chosen->second, false);
                mine.erase(chosen);
            }
        }
        EXPECT_EQ(d.counters().requests_rejected.get(), 0u);
    }
}

}  // namespace
}  // namespace orchard
