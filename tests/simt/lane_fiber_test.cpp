// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The fiber under a lane, alone.

#include "device/simt/emulated/lane_fiber.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

namespace orchard::simt::emulated {
namespace {

struct counter {
    lane_fiber* fiber = nullptr;
    int steps = 0;

    static void run(void* argument) noexcept {
        auto& self = *static_cast<counter*>(argument);
        for (int i = 0; i < 3; ++i) {
            ++self.steps;
            self.fiber->suspend();
        }
        try {
            throw std::runtime_error("within the fiber");
        } catch (const std::runtime_error&) {
            self.steps += 100;
        }
    }
};

TEST(LaneFiber, RunsOneTaskAfterAnother) {
    lane_fiber fiber(0);
    for (int task = 0; task < 3; ++task) {
        counter c{&fiber};
        fiber.assign(&counter::run, &c);
        for (int i = 1; i <= 3; ++i) {
            fiber.resume();
            EXPECT_EQ(c.steps, i);
        }
        fiber.resume();
        EXPECT_EQ(c.steps, 103);
    }
}

TEST(LaneFiber, ManyAreMadeRunAndDestroyed) {
    for (int round = 0; round < 3; ++round) {
        std::vector<std::unique_ptr<lane_fiber>> fibers;
        std::vector<counter> counters(40);
        for (unsigned i = 0; i < counters.size(); ++i) {
            fibers.push_back(std::make_unique<lane_fiber>(i));
            counters[i].fiber = fibers[i].get();
            fibers[i]->assign(&counter::run, &counters[i]);
        }
        for (int step = 0; step < 4; ++step) {
            for (auto& fiber : fibers) {
                fiber->resume();
            }
        }
        for (const counter& c : counters) {
            EXPECT_EQ(c.steps, 103);
        }
    }
}

TEST(LaneFiber, MovesToAnotherThreadBetweenTasks) {
    lane_fiber fiber(0);
    int total = 0;
    for (int task = 0; task < 3; ++task) {
        std::thread([&] {
            counter c{&fiber};
            fiber.assign(&counter::run, &c);
            for (int i = 0; i < 4; ++i) {
                fiber.resume();
            }
            total += c.steps;
        }).join();
    }
    EXPECT_EQ(total, 309);
}

TEST(LaneFiber, EndsUnusedToo) { const lane_fiber fiber(5); }

TEST(LaneFiber, UsesItsStackToNearlyItsEnd) {
    struct deep {
        static int sum(int depth) {
            volatile char frame[1024] = {};
            frame[depth % 1024] = 1;
            return depth == 0 ? 0 : frame[depth % 1024] + sum(depth - 1);
        }
    };
    lane_fiber fiber(31);
    int result = 0;
    fiber.assign([](void* r) noexcept { *static_cast<int*>(r) = deep::sum(45); }, &result);
    fiber.resume();
    EXPECT_EQ(result, 45);
}

}  // namespace
}  // namespace orchard::simt::emulated
