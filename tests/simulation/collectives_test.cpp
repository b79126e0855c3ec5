// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Collectives return the results of a plain model in any order of arrival, and cost as much as on the fast scheduler.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "device/simt/block.cuh"
#include "tests/simt/run_emulated.hpp"
#include "tests/simulation/rig.hpp"

namespace orchard::simt::explore {
namespace {

constexpr std::size_t lanes = 8;

/// One round: lanes divided into groups, and the value of each lane.
struct round {
    std::array<lane_mask, lanes> mask{};
    std::array<std::uint32_t, lanes> value{};
    std::array<int, lanes> source{};
};

round random_round(random_sequence& random) {
    round r;
    std::array<std::uint32_t, lanes> group{};
    for (std::size_t l = 0; l < lanes; ++l) {
        group[l] = random.below(3);
        r.value[l] = random.below(4) == 0 ? 0xfffffff0u : random.below(4);
    }
    for (std::size_t l = 0; l < lanes; ++l) {
        for (std::size_t other = 0; other < lanes; ++other) {
            r.mask[l] |= group[other] == group[l] ? lane_mask{1} << other : 0;
        }
        std::uint32_t skip = random.below(static_cast<std::uint32_t>(std::popcount(r.mask[l])));
        lane_mask rest = r.mask[l];
        for (; skip != 0; --skip) {
            rest &= rest - 1;
        }
        r.source[l] = std::countr_zero(rest);
    }
    return r;
}

/// The expected results of lane `self`, from the values of all lanes.
struct expected {
    lane_mask ballot = 0;
    lane_mask match = 0;
    std::uint32_t add = 0;
    std::uint32_t bits = 0;
    std::uint32_t greatest = 0;
};

expected model(const round& r, std::size_t self) {
    expected e;
    for (std::size_t l = 0; l < lanes; ++l) {
        if ((r.mask[self] >> l & 1) == 0) {
            continue;
        }
        e.ballot |= (r.value[l] & 1) != 0 ? lane_mask{1} << l : 0;
        e.match |= r.value[l] == r.value[self] ? lane_mask{1} << l : 0;
        e.add += r.value[l];
        e.bits |= r.value[l];
        e.greatest = std::max(e.greatest, r.value[l]);
    }
    return e;
}

void play(simulation& s, const round& r, std::size_t self) {
    const lane_mask m = r.mask[self];
    const std::uint32_t v = r.value[self];
    const expected e = model(r, self);
    s.check(ballot(m, (v & 1) != 0) == e.ballot, "ballot");
    const auto source = static_cast<std::size_t>(r.source[self]);
    s.check(shuffle(m, v, r.source[self]) == r.value[source], "shuffle");
    const std::uint64_t wide = std::uint64_t{v} << 32 | v;
    s.check(shuffle(m, wide, r.source[self]) == (std::uint64_t{r.value[source]} << 32 | r.value[source]),
            "shuffle of 64 bits");
    s.check(match(m, v) == e.match, "match");
    s.check(reduce_add(m, v) == e.add, "reduce_add");
    sync(m);
    s.check(reduce_or(m, v) == e.bits, "reduce_or");
    s.check(reduce_max(m, v) == e.greatest, "reduce_max");
}

TEST(Collectives, GiveWhatTheModelSays) {
    random_sequence random(20);
    with_seeds(100, {}, [&](simulation& s) {
        std::vector<round> rounds;
        for (int i = 0; i < 3; ++i) {
            rounds.push_back(random_round(random));
        }
        s.add_kernel({{lanes}}, [&](thread_position at) {
            for (const round& r : rounds) {
                play(s, r, at.thread);
            }
        });
        EXPECT_TRUE(s.run()) << s.result().violation;
    });
}

TEST(Collectives, OnlyASyncOrdersMemory) {
    const auto scenario = [](bool synced) {
        return [synced](simulation& s) {
            plain<std::uint32_t> data{};
            s.add_kernel({{2}}, [&, synced](thread_position at) {
                if (at.thread == 0) {
                    data.set(1);
                }
                if (synced) {
                    sync(3);
                } else {
                    (void)ballot(3, true);
                }
                if (at.thread == 1) {
                    s.check(data.get() == 1, "an old value");
                }
            });
            (void)s.run();
        };
    };
    EXPECT_EQ(first_violation(50, {}, scenario(true)), "");
    EXPECT_NE(first_violation(50, {}, scenario(false)).find("a race: the plain load"), std::string::npos);
}

TEST(Collectives, ThreadsOfABlockGetTheirSums) {
    with_seeds(100, {}, [](simulation& s) {
        s.add_kernel({{3, 2}, {4}}, [&](thread_position at) {
            const std::uint64_t rank = at.thread < 32 ? at.thread : at.thread - 32 + 3;
            for (std::uint64_t i = 1; i < 4; ++i) {
                const block_sum sum = sum_in_block(i << rank);
                s.check(sum.before == i * ((std::uint64_t{1} << rank) - 1), "the sum before a thread");
                s.check(sum.all == i * (at.block == 0 ? 31 : 15), "the sum of a block");
            }
        });
        s.add_host("host", [&] { s.check(sum_in_block(3).all == 3, "a host thread is alone"); });
        EXPECT_TRUE(s.run()) << s.result().violation;
    });
}

TEST(Collectives, ABarrierOrdersTheThreadsOfItsBlock) {
    const auto scenario = [](bool same_block) {
        return [same_block](simulation& s) {
            plain<std::uint32_t> data{};
            const std::vector<block_shape> shape =
                same_block ? std::vector<block_shape>{{1, 2}} : std::vector<block_shape>{{1}, {2}};
            s.add_kernel(shape, [&, same_block](thread_position at) {
                const bool writes = at.block == 0 && at.thread == 0;
                if (writes) {
                    data.set(1);
                }
                sync_in_block();
                if (!writes) {
                    s.check(data.get() == 1 || !same_block, "an old value");
                }
            });
            (void)s.run();
        };
    };
    EXPECT_EQ(first_violation(50, {}, scenario(true)), "");
    EXPECT_NE(first_violation(50, {}, scenario(false)).find("a race: the plain"), std::string::npos);
}

/// Words of every kind, accessed by one lane of each warp, so that counts do not depend on the order of arrival.
struct counted_kernel {
    word32* device;
    host_word<std::uint64_t>* host;
    plain<std::uint32_t>* value;

    void operator()(thread_position at) const {
        const std::size_t warp = at.block * 2 + at.thread / 32;
        if (lane_id() == 0) {
            word32& d = device[warp];
            (void)d.fetch_or<order::acq_rel>(1);
            std::uint32_t found = 99;
            (void)d.compare_exchange<order::relaxed>(found, 1);
            d.store<order::relaxed>(d.load<order::relaxed>());
            host[warp].store<order::release>(host[warp].load<order::acquire>());
            value[warp].set(value[warp].get() + 1);
            fence<scope::device>();
        }
        (void)converge();
        (void)ballot(~lane_mask{0}, true);
        (void)reduce_add(1u << lane_id(), 1);
        sync(~lane_mask{0});
        pause(0);
    }
};

TEST(Collectives, CostsAreCountedAsOnTheFastScheduler) {
    std::array<word32, 4> device{};
    std::array<host_word<std::uint64_t>, 4> host{};
    std::array<plain<std::uint32_t>, 4> value{};
    const counted_kernel kernel{device.data(), host.data(), value.data()};
    const auto fast = run_emulated({2, 64}, kernel);
    ASSERT_TRUE(fast.ok) << fast.error;
    EXPECT_EQ(fast.costs.device_loads, 8u);
    with_seeds(4, {}, [&](simulation& s) {
        s.add_host("host", [&] { (void)device[0].load<order::relaxed>(); });  // not a lane's: not counted
        s.add_kernel({{32, 32}, {32, 32}}, kernel);
        ASSERT_TRUE(s.run()) << s.result().violation;
        const emulated::costs& c = s.result().lane_costs;
        EXPECT_EQ(c.device_loads, fast.costs.device_loads);
        EXPECT_EQ(c.device_stores, fast.costs.device_stores);
        EXPECT_EQ(c.device_atomics, fast.costs.device_atomics);
        EXPECT_EQ(c.host_words_read, fast.costs.host_words_read);
        EXPECT_EQ(c.host_words_written, fast.costs.host_words_written);
        EXPECT_EQ(c.host_atomics, fast.costs.host_atomics);
        EXPECT_EQ(c.collectives, fast.costs.collectives);
        EXPECT_EQ(c.pauses, fast.costs.pauses);
    });
}

}  // namespace
}  // namespace orchard::simt::explore
