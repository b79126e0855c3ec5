// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Patterns: the accesses of each, and that a layout maps them to other addresses without any other change.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "tests/uvm_trace/traces.hpp"
#include "uvm/model/patterns.hpp"
#include "uvm/model/trace_file.hpp"

namespace orchard::test {
namespace {

using uvm_model::access;
using uvm_model::access_kind;
using uvm_model::access_source;
using uvm_model::csr;
using uvm_model::offset_access;
using uvm_model::offset_source;
using uvm_model::pattern;
using uvm_model::pattern_parameters;
using uvm_model::placement;

/// 70 threads: two whole warps, and one of 6 lanes.
pattern_parameters small(layout how = layout::linear()) {
    pattern_parameters p;
    p.memory = {.threads = 70, .bytes_per_thread = 10'000, .element_bytes = 8, .how = how};
    p.accesses_per_thread = 3000;
    p.stride = 1600;
    return p;
}

std::unique_ptr<access_source> make(pattern which, const pattern_parameters& of) {
    auto made = uvm_model::make_pattern(which, of);
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
}

/// All accesses of a pattern before they are placed, by warp and step.
std::vector<std::vector<std::vector<offset_access>>> offsets(pattern which, const pattern_parameters& of) {
    auto made = uvm_model::make_offsets(which, of);
    EXPECT_TRUE(made.ok()) << made.status();
    std::vector<std::vector<std::vector<offset_access>>> all((of.memory.threads + 31) / 32);
    std::array<offset_access, max_lanes> buffer;
    for (std::uint32_t w = 0; w < all.size(); ++w) {
        std::size_t count = 0;
        for (std::uint64_t i = 0; (count = (*made)->step(w, i, buffer)) != 0; ++i) {
            all[w].emplace_back(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(count));
        }
    }
    return all;
}

class EachPattern : public ::testing::TestWithParam<pattern> {};
INSTANTIATE_TEST_SUITE_P(All, EachPattern, ::testing::ValuesIn([] {
                             std::vector<pattern> all;
                             for (const auto& e : uvm_model::patterns()) {
                                 all.push_back(e.which);
                             }
                             return all;
                         }()),
                         [](const auto& of) {
                             std::string name(uvm_model::patterns()[static_cast<std::size_t>(of.param)].name);
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

TEST_P(EachPattern, KeepsTheContractOfSources) {
    for (const layout how : {layout::linear(), layout::interleaved(tile::b16), layout::interleaved(tile::k64)}) {
        const auto source = make(GetParam(), small(how));
        EXPECT_EQ(source->warps(), 3u);
        std::array<access, max_lanes> out;
        std::array<access, max_lanes> again;
        for (std::uint32_t w = 0; w < 3; ++w) {
            std::size_t count = 0;
            std::uint64_t steps = 0;
            for (; (count = source->step(w, steps, out)) != 0; ++steps) {
                ASSERT_EQ(source->step(w, steps, again), count);
                ASSERT_TRUE(std::equal(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count), again.begin()));
                for (std::size_t i = 0; i < count; ++i) {
                    ASSERT_LT(out[i].address, source->bytes());
                    ASSERT_LT(out[i].lane, w == 2 ? 6 : 32);
                    ASSERT_TRUE(i == 0 || out[i - 1].lane < out[i].lane);
                }
            }
            EXPECT_EQ(steps, GetParam() == pattern::growth ? 1250u : 3000u);
            EXPECT_EQ(source->step(w, steps, again), 0u);
        }
    }
}

TEST_P(EachPattern, IsTheSameEachTimeAndAnotherForAnotherSeed) {
    const auto first = all_of(*make(GetParam(), small()));
    EXPECT_EQ(all_of(*make(GetParam(), small())), first);
    pattern_parameters other = small();
    other.seed = 2;
    const bool random = GetParam() != pattern::sequential && GetParam() != pattern::strided;
    EXPECT_EQ(all_of(*make(GetParam(), other)) != first, random);
}

TEST_P(EachPattern, StaysInItsOwnBytesButForTheGraph) {
    std::set<std::uint64_t> owners;
    const auto all = offsets(GetParam(), small());
    for (std::size_t w = 0; w < all.size(); ++w) {
        for (const auto& step : all[w]) {
            for (const offset_access& a : step) {
                ASSERT_LE(a.offset + 8, 10'000u);
                ASSERT_EQ(a.offset % 8, 0u);
                if (GetParam() == pattern::graph_walk) {
                    ASSERT_LT(a.thread, 70u);
                } else {
                    ASSERT_EQ(a.thread, w * 32 + a.lane);
                }
                ASSERT_EQ(a.kind, GetParam() == pattern::growth ? access_kind::write : access_kind::read);
                owners.insert(a.thread);
            }
        }
    }
    EXPECT_EQ(owners.size(), 70u);
}

TEST_P(EachPattern, IsPlacedAnewWithoutAChange) {
    const pattern_parameters linear = small();
    const pattern_parameters tiles = small(layout::interleaved(tile::k4));
    const auto from = make(GetParam(), linear);
    const auto moved = uvm_model::placed(uvm_model::offsets_of(*from, *placement::create(linear.memory)),
                                         *placement::create(tiles.memory));
    EXPECT_EQ(all_of(*moved), all_of(*make(GetParam(), tiles)));
    // Through a file too.
    const auto recorded = uvm_model::trace::from(*make(GetParam(), linear));
    ASSERT_TRUE(recorded.ok()) << recorded.status();
    const auto reader = recorded->source();
    const auto replayed = uvm_model::placed(uvm_model::offsets_of(*reader, *placement::create(linear.memory)),
                                            *placement::create(tiles.memory));
    EXPECT_EQ(all_of(*replayed), all_of(*moved));
}

TEST(Patterns, RandomReachesAllOfAThread) {
    std::set<std::uint64_t> of_thread_5;
    const auto all = offsets(pattern::random, small());
    for (const auto& step : all[0]) {
        of_thread_5.insert(step[5].offset);
        EXPECT_NE(step[5].offset, step[6].offset + 1);
    }
    EXPECT_EQ(*of_thread_5.begin(), 0u);
    EXPECT_EQ(*of_thread_5.rbegin(), 9992u);
    EXPECT_NEAR(static_cast<double>(of_thread_5.size()), 1250 * 0.909, 40);  // 1 - exp(-3000 / 1250)
}

TEST(Patterns, SameIndexIsOneIndexOfTheWarp) {
    const auto all = offsets(pattern::same_index, small());
    std::set<std::uint64_t> indices;
    std::size_t as_in_warp_1 = 0;
    for (std::size_t i = 0; i < all[0].size(); ++i) {
        for (const offset_access& a : all[0][i]) {
            ASSERT_EQ(a.offset, all[0][i][0].offset);
        }
        indices.insert(all[0][i][0].offset);
        as_in_warp_1 += all[0][i][0].offset == all[1][i][0].offset ? 1 : 0;
    }
    EXPECT_GT(indices.size(), 1000u);
    EXPECT_LT(as_in_warp_1, 20u);
}

TEST(Patterns, SequentialGoesRound) {
    const auto all = offsets(pattern::sequential, small());
    for (std::uint64_t i = 0; i < 3000; ++i) {
        ASSERT_EQ(all[1][i][7].offset, i % 1250 * 8);
    }
}

TEST(Patterns, StridedTakesEachElementOnceARound) {
    for (const std::uint64_t stride : {8, 1600, 4800, 5008, 9992, 1 << 20}) {
        pattern_parameters p = small();
        p.stride = stride;
        p.accesses_per_thread = 2500;
        const auto steps = offsets(pattern::strided, p)[0];
        std::vector<int> times(1250);
        for (std::uint64_t i = 0; i < 2500; ++i) {
            ++times[steps[i][3].offset / 8];
            ASSERT_EQ(steps[i][3].offset, steps[(i + 1250) % 2500][3].offset);
        }
        EXPECT_EQ(std::count(times.begin(), times.end(), 2), 1250) << stride;
        if (stride < 5000) {
            EXPECT_EQ(steps[1][0].offset, stride);
            EXPECT_EQ(steps[2][0].offset, 2 * stride);
        }
        const std::uint64_t sweep = (9992 / stride) + 1;
        EXPECT_EQ(steps[sweep][0].offset, sweep < 1250 ? 8u : 0u) << stride;
    }
}

TEST(Patterns, GrowthFillsFromTheBeginningAtDifferentPaces) {
    const auto all = offsets(pattern::growth, small());
    std::map<std::uint64_t, std::uint64_t> filled;
    for (const auto& steps : all) {
        for (const auto& step : steps) {
            for (const offset_access& a : step) {
                ASSERT_EQ(a.offset, filled[a.thread]);
                filled[a.thread] += 8;
            }
        }
    }
    std::set<std::uint64_t> lengths;
    for (const auto& [thread, bytes] : filled) {
        lengths.insert(bytes);
    }
    EXPECT_EQ(filled.size(), 70u);
    EXPECT_EQ(*lengths.rbegin(), 10'000u);
    EXPECT_GT(lengths.size(), 50u);
}

TEST(Patterns, TheWalkFollowsTheGraph) {
    // A ring of 40 vertices, with a chord from each to the vertex 7 on.
    csr ring;
    for (std::uint32_t v = 0; v < 40; ++v) {
        ring.begin.push_back(2 * v);
        ring.to.insert(ring.to.end(), {(v + 1) % 40, (v + 7) % 40});
    }
    ring.begin.push_back(80);
    pattern_parameters p = small();
    p.graph = std::make_shared<const csr>(ring);
    const auto all = offsets(pattern::graph_walk, p);
    std::set<std::uint64_t> edges;
    for (const auto& steps : all) {
        for (std::size_t i = 0; i < steps.size(); ++i) {
            for (std::size_t l = 0; l < steps[i].size(); ++l) {
                const auto edge_at = [&](std::size_t k) {
                    return steps[k][l].thread * 2 + steps[k][l].offset / 8;  // 80 edges, 70 threads: 2 each
                };
                ASSERT_LT(edge_at(i), 80u);
                edges.insert(edge_at(i));
                if (i != 0) {
                    ASSERT_EQ(edge_at(i) / 2, ring.to[edge_at(i - 1)]);
                }
            }
        }
    }
    EXPECT_EQ(edges.size(), 80u);
}

TEST(Patterns, AWalkThatEndsNowhereGoesOnElsewhere) {
    pattern_parameters p = small();
    p.graph = std::make_shared<const csr>(csr{{0, 0, 1, 1}, {2}});  // 1 -> 2, and 2 has no edges
    const auto all = offsets(pattern::graph_walk, p);
    EXPECT_EQ(all[0].size(), 3000u);
    EXPECT_EQ(all[0][2999][31], (offset_access{0, 0, 31, access_kind::read}));
}

TEST(Patterns, GeneratedGraphsHaveHubs) {
    const auto made = uvm_model::power_law(10'000, 160'001, 3);
    ASSERT_TRUE(made.ok()) << made.status();
    ASSERT_TRUE(uvm_model::validate(*made).ok());
    EXPECT_EQ(made->edges(), 160'000u);
    std::vector<std::uint64_t> degrees;
    std::set<std::pair<std::uint32_t, std::uint32_t>> edges;
    for (std::uint32_t v = 0; v < 10'000; ++v) {
        degrees.push_back(made->begin[v + 1] - made->begin[v]);
        for (std::uint64_t e = made->begin[v]; e < made->begin[v + 1]; ++e) {
            EXPECT_NE(made->to[e], v);
            edges.insert({v, made->to[e]});
        }
    }
    for (const auto& [from, to] : edges) {
        ASSERT_TRUE(edges.contains({to, from}));
    }
    const auto top = std::max_element(degrees.begin(), degrees.end());
    EXPECT_GT(top - degrees.begin(), 100);  // hubs are anywhere
    std::sort(degrees.begin(), degrees.end(), std::greater<>());
    // Shares of (r/n)^(1/3): of the first vertex 4.6 %, of the first hundredth 21.5 %, of the first eighth a half.
    const auto share = [&](std::size_t vertices) {
        std::uint64_t sum = 0;
        for (std::size_t i = 0; i < vertices; ++i) {
            sum += degrees[i];
        }
        return static_cast<double>(sum) / 160'000;
    };
    EXPECT_NEAR(share(1), 0.046, 0.006);
    EXPECT_NEAR(share(100), 0.215, 0.01);
    EXPECT_NEAR(share(1250), 0.5, 0.02);
}

TEST(Patterns, WhatCannotBeIsRefused) {
    const auto refused = [](pattern which, const pattern_parameters& p, const std::string& text) {
        const auto made = uvm_model::make_pattern(which, p);
        ASSERT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument) << text;
        EXPECT_THAT(std::string(made.status().message()), ::testing::HasSubstr(text));
    };
    pattern_parameters p = small();
    p.memory.threads = 0;
    refused(pattern::random, p, "0 threads");
    p = small();
    p.accesses_per_thread = 0;
    refused(pattern::random, p, "0 accesses");
    p = small();
    p.stride = 12;
    refused(pattern::strided, p, "12 bytes");
    p.stride = 0;
    refused(pattern::strided, p, "0 bytes");
    p = small();
    p.memory.bytes_per_thread = 1ull << 30;
    refused(pattern::graph_walk, p, "can be made");
    p = small();
    p.vertices = 1;
    refused(pattern::graph_walk, p, "1 vertices");
    p.graph = std::make_shared<const csr>(csr{{0, 1}, {5}});
    refused(pattern::graph_walk, p, "leads to vertex 5");
    p.graph = std::make_shared<const csr>(csr{{0, 2, 1}, {0}});
    refused(pattern::graph_walk, p, "vertex 1");
    p.graph = std::make_shared<const csr>(csr{{0, 2}, {0}});
    refused(pattern::graph_walk, p, "do not cover");
    p.graph = std::make_shared<const csr>(csr{{0, 100'000}, std::vector<std::uint32_t>(100'000)});
    refused(pattern::graph_walk, p, "100000 edges");

    EXPECT_EQ(*uvm_model::pattern_named("graph-walk"), pattern::graph_walk);
    EXPECT_THAT(std::string(uvm_model::pattern_named("x").status().message()), ::testing::HasSubstr("same-index"));
    for (std::size_t i = 0; i < uvm_model::patterns().size(); ++i) {
        EXPECT_EQ(static_cast<std::size_t>(uvm_model::patterns()[i].which), i);
    }
}

}  // namespace
}  // namespace orchard::test
