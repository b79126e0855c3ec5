// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Every field of every word at its limits, and the tags of the rings.

#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <vector>

#include "tests/support/mailbox_memory.hpp"
#include "uvm/geometry/mailbox.hpp"

namespace orchard::mailbox {
namespace {

constexpr std::uint32_t last_segment = max_segments - 1;

TEST(PackingAPost, OfAGrantKeepsEveryField) {
    for (const std::uint32_t lap : {0u, 1u, 255u}) {
        for (const std::uint32_t slot : {0u, 1u, 16383u}) {
            for (const std::uint32_t tag : {0u, 1u, 255u}) {
                for (const std::uint32_t count : {0u, 1u, 255u, 256u, last_segment}) {
                    for (const bool or_fewer : {false, true}) {
                        const request p{request_kind::grant, slot, tag, {segment_index{0}, count}, or_fewer};
                        const std::uint64_t word = p.pack(lap);
                        const request q = request::unpack(word);
                        EXPECT_EQ(request::lap_field::get(word), lap);
                        EXPECT_EQ(q.kind, request_kind::grant);
                        EXPECT_EQ(q.slot, slot);
                        EXPECT_EQ(q.tag, tag);
                        EXPECT_EQ(q.run, p.run);
                        EXPECT_EQ(q.or_fewer, or_fewer);
                    }
                }
            }
        }
    }
}

TEST(PackingAPost, OfAnExtensionKeepsItsSegments) {
    for (const std::uint32_t first : {0u, 1u, last_segment}) {
        for (const std::uint32_t count : {1u, max_give_back}) {
            const request p{request_kind::extend, 16383, 255, {segment_index{first}, count}};
            const request q = request::unpack(p.pack(7));
            EXPECT_EQ(q.kind, request_kind::extend);
            EXPECT_EQ(q.run, p.run);
            EXPECT_EQ(to_underlying(q.leaves), 0u);
            EXPECT_FALSE(q.or_fewer);
            EXPECT_FALSE(q.is_of_portion());
        }
    }
}

TEST(PackingAPost, OfAReturnKeepsEveryField) {
    for (const std::uint32_t lap : {0u, 255u}) {
        for (const std::uint32_t slot : {0u, 16383u}) {
            for (const std::uint32_t tag : {0u, 255u}) {
                for (const std::uint32_t first : {0u, 1u, last_segment}) {
                    for (const std::uint32_t count : {0u, 1u, max_give_back}) {
                        const request p{request_kind::give_back, slot, tag, {segment_index{first}, count}, false};
                        const std::uint64_t word = p.pack(lap);
                        const request q = request::unpack(word);
                        EXPECT_EQ(request::lap_field::get(word), lap);
                        EXPECT_EQ(q.kind, request_kind::give_back);
                        EXPECT_EQ(q.slot, slot);
                        EXPECT_EQ(q.tag, tag);
                        EXPECT_EQ(q.run, p.run);
                        EXPECT_FALSE(q.or_fewer);
                    }
                }
            }
        }
    }
}

TEST(PackingAPost, OfAChunkKeepsSegmentsAndTail) {
    for (const std::uint32_t count : {0u, 1u, last_segment}) {
        for (std::uint32_t leaves = 0; leaves < leaves_per_segment; ++leaves) {
            const auto advice = static_cast<advice_code>(leaves % advice_codes);
            const request p{request_kind::grant, 3, 4, {segment_index{0}, count}, leaves == 7, advice,
                            leaf_count{leaves}};
            const request q = request::unpack(p.pack(1));
            EXPECT_EQ(q.run.count, count);
            EXPECT_EQ(q.advice, advice);
            EXPECT_EQ(q.leaves, p.leaves);
            EXPECT_EQ(q.or_fewer, p.or_fewer);
        }
    }
}

TEST(PackingAPost, OfAPortionsReturnSaysWhereItBegins) {
    for (const std::uint32_t block : {0u, 1u, last_segment}) {
        for (std::uint32_t leaf = 0; leaf < leaves_per_segment; ++leaf) {
            const request q = request::unpack(request::return_of(segment_index{block}, leaf_index{leaf}).pack(1));
            EXPECT_EQ(q.run.first, segment_index{block});
            EXPECT_EQ(q.run.count, request::portion_at + leaf);
            EXPECT_GT(q.run.count, mailbox::max_give_back) << "or it would be so many segments";
        }
    }
}

TEST(PackingAnAnswer, SaysWhereATailLies) {
    const auto granted = [](std::uint32_t count) {
        return response{response_status::granted, 0, 0, {segment_index{40}, count}};
    };
    const mailbox::grant alone = mailbox::granted_by(granted(13), 0, 6);
    EXPECT_EQ(alone.tail_block(), segment_index{40});
    EXPECT_EQ(alone.leaf, leaf_index{13});
    const mailbox::grant behind = mailbox::granted_by(granted(0), 3, 6);
    EXPECT_EQ(behind.count, 3u);
    EXPECT_EQ(behind.tail_block(), segment_index{43});
    EXPECT_EQ(behind.leaf, leaf_index{0});
    EXPECT_EQ(mailbox::granted_by(granted(5), 16, 0).count, 5u) << "or fewer";
    EXPECT_EQ(mailbox::granted_by(granted(0), 16, 0).count, 16u);
}

TEST(PackingAPost, OfAPingKeepsSlotAndTag) {
    const request q = request::unpack(request{request_kind::ping, 16383, 255, {segment_index{0}, 0}, false}.pack(255));
    EXPECT_EQ(q.kind, request_kind::ping);
    EXPECT_EQ(q.slot, 16383u);
    EXPECT_EQ(q.tag, 255u);
}

TEST(PackingAnAnswer, KeepsEveryField) {
    for (std::uint32_t s = 1; s <= 8; ++s) {
        for (const std::uint32_t lap : {0u, 1u, 255u}) {
            for (const std::uint32_t slot : {0u, 1u, 16383u}) {
                for (const std::uint32_t tag : {0u, 1u, 255u}) {
                    for (const std::uint32_t first : {0u, 1u, last_segment}) {
                        for (const std::uint32_t count : {0u, 1u, max_refill}) {
                            const response a{static_cast<response_status>(s), slot, tag, {segment_index{first}, count}};
                            const std::uint64_t word = a.pack(lap);
                            const response b = response::unpack(word);
                            EXPECT_EQ(response::lap_field::get(word), lap);
                            EXPECT_EQ(b.status, a.status);
                            EXPECT_EQ(b.slot, slot);
                            EXPECT_EQ(b.tag, tag);
                            EXPECT_EQ(b.run, a.run);
                        }
                    }
                }
            }
        }
    }
}

TEST(PackingASlot, KeepsWhatIsDelivered) {
    for (std::uint32_t s = 1; s <= max_response_status; ++s) {
        for (const std::uint32_t first : {0u, last_segment}) {
            for (const std::uint32_t count : {0u, max_refill}) {
                for (const std::uint32_t tag : {0u, 255u}) {
                    const response a{static_cast<response_status>(s), 5, tag, {segment_index{first}, count}};
                    const std::uint64_t word = slot_word::delivered(a);
                    const response b = slot_word::unpack(word);
                    EXPECT_EQ(b.status, a.status);
                    EXPECT_EQ(b.tag, tag);
                    EXPECT_EQ(b.run, a.run);
                    EXPECT_NE(word & slot_word::pending, 0u);
                    EXPECT_NE(word & slot_word::answered, 0u);
                    EXPECT_FALSE(slot_word::is_awaited(word, tag));
                    const std::uint64_t marked = slot_word::delivered(a, slot_word::takeover_field::mask);
                    EXPECT_EQ(slot_word::taken_over(word, slot_word::takeover_field::mask), marked);
                    EXPECT_EQ(slot_word::taken_over(marked, 0), word);
                    EXPECT_EQ(slot_word::unpack(marked).run, a.run);
                }
            }
        }
    }
}

TEST(PackingASlot, TellsItsStatesAndTagsApart) {
    for (std::uint32_t tag = 0; tag < 256; ++tag) {
        const std::uint64_t unattended = slot_word::left_unattended(tag, last_segment, 31);
        EXPECT_TRUE(slot_word::is_awaited(unattended, tag));
        EXPECT_TRUE(slot_word::is_awaited(slot_word::taken_over(unattended, slot_word::takeover_field::mask), tag));
        EXPECT_FALSE(slot_word::is_awaited(unattended, tag ^ 1));
        EXPECT_TRUE(slot_word::is_awaited(slot_word::waiting(tag, 5), tag));
        EXPECT_FALSE(slot_word::is_awaited(slot_word::idle(tag), tag));
        EXPECT_EQ(slot_word::asked_segments_field::get(unattended), last_segment);
        EXPECT_EQ(slot_word::asked_leaves_field::get(unattended), 31u);
        EXPECT_EQ(slot_word::idle(tag) | slot_word::pending, slot_word::waiting(tag)) << "what claims a slot";
        EXPECT_EQ(slot_word::tag_field::get(unattended), tag);
    }
}

TEST(PackingThePoller, CountsTenuresAndKeepsTheCursor) {
    const std::uint64_t last_cursor = (std::uint64_t{1} << 40) - 1;
    for (const std::uint64_t cursor : {std::uint64_t{0}, std::uint64_t{1}, last_cursor}) {
        const std::uint64_t taken = poller_word::succeeded(poller_word::moved_to(0, cursor));
        EXPECT_EQ(poller_word::cursor(taken), cursor);
        EXPECT_EQ(poller_word::epoch_field::get(taken), 1u);
        EXPECT_NE(taken & poller_word::held, 0u);
        const std::uint64_t released = poller_word::released(taken);
        EXPECT_EQ(released & poller_word::held, 0u);
        EXPECT_EQ(poller_word::cursor(released), cursor);
        EXPECT_NE(released | poller_word::held, taken) << "the next turn is told from this one";
        EXPECT_NE(poller_word::succeeded(taken), taken) << "as is that of the group that takes over";
        EXPECT_EQ(poller_word::moved_to(taken, 7) & ~poller_word::cursor_field::mask,
                  taken & ~poller_word::cursor_field::mask);
    }
}

TEST(PackingThePoller, EpochAndCursorWrapWithoutTouchingOtherFields) {
    const std::uint64_t last_epoch = poller_word::epoch_field::put(~std::uint64_t{0});
    const std::uint64_t next = poller_word::succeeded(last_epoch | 5);
    EXPECT_EQ(poller_word::epoch_field::get(next), 0u);
    EXPECT_EQ(poller_word::cursor(next), 5u);
    EXPECT_NE(next & poller_word::held, 0u);
    const std::uint64_t moved = poller_word::moved_to(next, std::uint64_t{1} << 40);
    EXPECT_EQ(poller_word::cursor(moved), 0u);
    EXPECT_EQ(poller_word::epoch_field::get(moved), 0u);
}

class LapTags : public ::testing::TestWithParam<shape> {};

TEST_P(LapTags, NeverEqualThoseOfTheNeighbouringLaps) {
    const shape s = GetParam();
    EXPECT_NE(s.lap_tag(0), 0u) << "a ring that was never written must not look written";
    for (std::uint64_t lap = 1; lap < 3 * (std::uint64_t{s.lap_mask()} + 1); ++lap) {
        for (const std::uint64_t place : {std::uint64_t{0}, std::uint64_t{s.slots - 1}}) {
            const std::uint64_t number = lap * s.slots + place;
            EXPECT_NE(s.lap_tag(number), s.lap_tag(number - s.slots));
            EXPECT_NE(s.lap_tag(number), s.lap_tag(number + s.slots));
            EXPECT_NE(s.lap_tag(number - s.slots), s.lap_tag(number + s.slots));
            EXPECT_EQ(s.position(number), place);
            EXPECT_LE(s.lap_tag(number), s.lap_mask());
            // A cursor has 40 bits.
            EXPECT_EQ(s.lap_tag(number), s.lap_tag(number + (std::uint64_t{1} << 40)));
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Shapes, LapTags,
                         ::testing::Values(shape{4, 8, 1, 2}, shape{4, 8, 1, 3}, shape{4}, shape{64, 8, 1, 2},
                                           shape{1024, 8, 1, 5}, shape{16384, 8, 1, 2}, shape{16384}),
                         [](const auto& of) {
                             return std::to_string(of.param.slots) + "_slots_" + std::to_string(of.param.lap_bits) +
                                    "_bits";
                         });

TEST(AnswerRings, HaveAsManySlotsEachAlsoOfThoseThatLeadersOfBlocksTake) {
    for (const std::uint32_t pollers : {1u, 2u, 4u}) {
        const shape s{16384, 8, pollers};
        for (std::uint32_t step = 1; step <= 64; step *= 2) {  // warps of a block
            std::vector<std::uint32_t> slots(pollers);
            for (std::uint32_t slot = 0; slot < s.slots; slot += step) {
                ++slots.at(s.response_ring(slot));
            }
            EXPECT_EQ(slots, std::vector<std::uint32_t>(pollers, s.slots / step / pollers)) << step;
        }
    }
}

TEST(Layout, PartsDoNotOverlapAndDeviceCountersShareNoLine) {
    for (const shape s : {shape{4, 2}, shape{16384, 8}}) {
        std::vector<std::uint64_t> memory(host_part::bytes(s) / 8);
        const host_part h = host_part::in(memory.data(), s);
        const auto offset = [&](const auto* word) {
            return static_cast<std::size_t>(reinterpret_cast<const char*>(word) -
                                            reinterpret_cast<const char*>(memory.data()));
        };
        EXPECT_EQ(offset(h.requests), 0u);
        EXPECT_GE(offset(h.responses), sizeof(std::uint64_t) * s.slots);
        EXPECT_GE(offset(h.heartbeat), offset(h.responses) + sizeof(std::uint64_t) * s.slots);
        EXPECT_GE(offset(h.blocked), offset(h.heartbeat) + sizeof(std::uint64_t));
        EXPECT_LE(offset(h.blocked) + sizeof(std::uint64_t), host_part::bytes(s));
    }
    const rig::mailbox_memory box(shape{4, 2});
    const auto line = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) / 128; };
    EXPECT_NE(line(&box.device->ticket), line(&box.device->poller));
    EXPECT_NE(line(&box.device->poller), line(&box.device->rejection));
    EXPECT_NE(line(&box.device->rejection), line(box.device->slots()));
}

}  // namespace
}  // namespace orchard::mailbox
