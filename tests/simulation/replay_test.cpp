// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The same choices give the same run: by hash, and word for word; here and on any other machine.

#include <absl/strings/match.h>
#include <absl/strings/str_format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tests/simulation/rig.hpp"

namespace orchard::simt::explore {
namespace {

/// A little of everything: two warps in two blocks, a service, words of both kinds, addresses, a wait.
struct everything {
    std::array<word32, 2> counters{};
    host_word<std::uint64_t> post{0};
    host32 answer{0};
    plain<std::uint32_t> shared{};
    host32 door{0};

    void add_to(simulation& s) {
        s.name_words(this, sizeof(*this), "rest");
        s.name_words(counters.data(), sizeof(counters), "counter", sizeof(word32));
        s.name_words(&post, sizeof(post), "post");
        s.name_words(&answer, sizeof(answer), "answer");
        s.name_words(&door, sizeof(door), "door");
        s.add_daemon("service", [this] {
            for (;;) {
                const std::uint64_t at = post.load<order::acquire>();
                if (at != 0 && answer.load<order::relaxed>() == 0) {
                    answer.store<order::release>(1);
                }
                pause(100);
            }
        });
        s.add_host("opener", [this] {
            door.store<order::release>(1);
            door.notify_all();
        });
        s.add_host("keeper", [this] { door.wait(0); });
        s.add_kernel({{2, 1}, {2}}, [this](thread_position at) { lane(at); });
    }
    void lane(thread_position at) {
        const lane_mask mask = converge();
        if (rank_in(mask) == 0) {
            (void)counters[at.block].fetch_add<order::acq_rel>(static_cast<std::uint32_t>(popcount(mask)));
            std::uint32_t expected = 3;
            (void)counters[0].compare_exchange<order::acq_rel>(expected, 30);
        }
        if (at.block == 1 && at.thread == 0) {
            shared.set(9);
            post.store<order::release>(reinterpret_cast<std::uintptr_t>(&counters[1]));
            while (answer.load<order::acquire>() == 0) {
                pause(200);
            }
        }
        fence<scope::device>();
        (void)ballot(mask, true);
        sync(mask);
    }
};

/// Makes one run with `from`; returns the hash, and the text if `text` is given.
std::uint64_t run_everything(choices& from, settings how, std::string* text = nullptr) {
    how.keep_trace = text != nullptr;
    everything e;
    simulation s(from, how);
    e.add_to(s);
    EXPECT_TRUE(s.run()) << s.result().violation;
    s.end_all();
    if (text != nullptr) {
        *text = s.timeline().text();
    }
    return s.result().trace_hash;
}

std::uint64_t run_seed(strategy by, std::uint64_t seed, std::string* text = nullptr) {
    const auto from = choices_of(by, seed);
    return run_everything(*from, {}, text);
}

TEST(Replay, TheSameSeedGivesTheSameRun) {
    for (const strategy by : {strategy::uniform, strategy::priority}) {
        for (std::uint64_t seed = 0; seed < 20; ++seed) {
            std::string first;
            std::string second;
            const std::uint64_t hash = run_seed(by, seed);
            EXPECT_EQ(run_seed(by, seed, &first), hash) << "a trace changes the run that it tells of";
            EXPECT_EQ(run_seed(by, seed, &second), hash);
            EXPECT_EQ(first, second);
            EXPECT_FALSE(first.empty());
        }
    }
}

TEST(Replay, TheSameOnEveryMachine) {
    constexpr std::uint64_t uniform[] = {3419604100244407439u, 9552983857546334194u, 14306607745437352439u,
                                         14799222172795462493u};
    constexpr std::uint64_t priority[] = {9928329223121151644u, 7828405007590269376u, 5308063110061698994u,
                                          8655269005528078687u};
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
        EXPECT_EQ(run_seed(strategy::uniform, seed), uniform[seed]) << seed;
        EXPECT_EQ(run_seed(strategy::priority, seed), priority[seed]) << seed;
    }
}

TEST(Replay, DifferentSeedsGiveDifferentRuns) {
    std::set<std::uint64_t> seen;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        seen.insert(run_seed(strategy::uniform, seed));
        seen.insert(run_seed(strategy::priority, seed));
    }
    EXPECT_GE(seen.size(), 390u);
}

TEST(Replay, ARecordGivesTheRunAgain) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const auto from = choices_of(strategy::uniform, seed);
        std::string text;
        const std::uint64_t hash = run_everything(*from, {}, &text);
        const auto again = recorded_choices(from->record());
        std::string text_again;
        EXPECT_EQ(run_everything(*again, {}, &text_again), hash);
        EXPECT_EQ(text_again, text);
        EXPECT_EQ(again->record(), from->record());
    }
}

TEST(Replay, AnyPieceOfARecordIsARun) {
    const auto from = choices_of(strategy::uniform, 3);
    (void)run_everything(*from, {});
    for (const std::size_t length : {std::size_t{0}, from->record().size() / 3, from->record().size() - 1}) {
        std::vector<std::uint32_t> piece(from->record().begin(),
                                         from->record().begin() + static_cast<std::ptrdiff_t>(length));
        for (std::uint32_t& choice : piece) {
            choice += 1;  // more than there is, now and then
        }
        (void)run_everything(*recorded_choices(piece), {});
    }
}

TEST(Timeline, IsReadable) {
    word32 word{0};
    host_word<std::uint64_t> post{0};
    calm_simulation calm(traced(plain_settings()));
    calm.s.name_words(&word, sizeof(word), "word");
    calm.s.name_words(&post, sizeof(post), "post");
    const auto line = [](int number) { return site{"some/folder/program.cpp", number}; };
    calm.s.add_kernel({{2}}, [&](thread_position at) {
        if (at.thread == 0) {
            word.store<order::release>(5, line(102));
            post.store<order::relaxed>(reinterpret_cast<std::uintptr_t>(&word), line(103));
        } else {
            (void)word.load<order::acquire>(line(105));
            std::uint32_t expected = 4;
            (void)word.compare_exchange<order::acq_rel>(expected, 6, line(107));
            (void)word.fetch_add<order::relaxed>(2, line(108));
        }
        fence<scope::device>(line(110));
        sync(3, line(111));
        (void)converge(line(112));
    });
    EXPECT_TRUE(calm.s.run()) << calm.s.result().violation;
    EXPECT_EQ(
        calm.s.timeline().text(),
        R"(     1      1.02us b0.w0.l0  store release device            word               0x0 -> 0x5               program.cpp:102
     2      1.04us b0.w0.l0  store relaxed system            post               0x0 -> &word+0           program.cpp:103
     3      1.06us b0.w0.l0  fence device                                                                program.cpp:110
     5      1.10us b0.w0.l1  load acquire device             word               0x5                      program.cpp:105            acquires b0.w0.l0, knows b0.w0.l0:1
     6      1.12us b0.w0.l1  compare_exchange acq_rel device word               0x5, unexpected          program.cpp:107            acquires b0.w0.l0
     7      1.14us b0.w0.l1  fetch_add relaxed device        word               0x5 -> 0x7               program.cpp:108
     8      1.16us b0.w0.l1  fence device                                                                program.cpp:110
     9      1.18us b0.w0.l1  sync                            lanes 0x00000003                            program.cpp:111
    11      1.22us b0.w0.l0  converge                        lanes 0x00000003                            program.cpp:112
)");
}

/// Bits that happen to be the number of an address stay bits: in the timeline, and in the hash, which would otherwise
/// differ from run to run.
TEST(Timeline, ShowsNoAddressesInBitmaps) {
    struct shown {
        std::string bits;
        std::string pointer;
    };
    const auto run = [](const word32& named, std::uint64_t value) {
        std::array<host_word<std::uint64_t>, 2> words{};
        calm_simulation calm(traced(plain_settings()));
        calm.s.name_words(&named, sizeof(named), "named");
        calm.s.name_bits(&words[0], sizeof(words[0]), "bits");
        calm.s.name_words(&words[1], sizeof(words[1]), "pointer");
        calm.s.add_kernel({{1}}, [&](thread_position) {
            words[0].store<order::relaxed>(value);
            words[1].store<order::relaxed>(value);
        });
        EXPECT_TRUE(calm.s.run()) << calm.s.result().violation;
        const auto& events = calm.s.timeline().events();
        return shown{events.at(0).value, events.at(1).value};
    };
    alignas(16) const word32 named{0};
    const auto address = reinterpret_cast<std::uintptr_t>(&named);
    for (const std::uint64_t value : {std::uint64_t{address}, std::uint64_t{address} >> 4 << 20 | 77}) {
        const shown text = run(named, value);
        EXPECT_EQ(text.bits, absl::StrFormat("0x0 -> 0x%x", value));
        EXPECT_TRUE(absl::StrContains(text.pointer, "&named")) << text.pointer;
    }
}

/// Reads the oldest value whenever it is allowed.
class old_values final : public choices {
protected:
    std::uint32_t pick(decision what, std::uint32_t n) override { return what == decision::version ? n - 1 : 0; }
    std::uint32_t pick_actor(std::span<const actor_id>, bool) override { return 0; }
};

TEST(Timeline, SaysHowOldAValueIsAndWhatAnAcquireTeaches) {
    old_values old;
    simulation s(old, traced(plain_settings()));
    host32 word{0};
    host32 flag{0};
    s.name_words(&word, sizeof(word), "word");
    s.add_host("writer", [&] {
        for (std::uint32_t i = 1; i <= 3; ++i) {
            word.store<order::relaxed>(i);
        }
        flag.store<order::release>(1);
    });
    s.add_host("reader", [&] {
        EXPECT_EQ(word.load<order::relaxed>(), 0u);
        (void)flag.fetch_add<order::acquire>(0);
        EXPECT_EQ(word.load<order::relaxed>(), 3u);
    });
    EXPECT_TRUE(s.run());
    const auto& events = s.timeline().events();
    ASSERT_EQ(events.size(), 7u);
    EXPECT_EQ(events[4].view, "3 of 4 back");
    EXPECT_EQ(events[5].view, "acquires writer, knows writer:4");
    EXPECT_EQ(events[5].place, "word 1");
    EXPECT_EQ(events[6].view, "");
}

}  // namespace
}  // namespace orchard::simt::explore
