// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Calls that nobody waits for: made in their order, by another thread.

#include "uvm/memory/queued_calls.hpp"

#include <gtest/gtest.h>

#include <future>
#include <thread>
#include <vector>

namespace orchard {
namespace {

using detail::queued_calls;

TEST(QueuedCalls, AreMadeInTheirOrderByAnotherThread) {
    queued_calls calls;
    EXPECT_TRUE(calls.is_idle());
    std::vector<int> made;
    std::thread::id there = std::this_thread::get_id();
    for (int i = 0; i < 5; ++i) {
        calls.push([&, i] {
            made.push_back(i);
            there = std::this_thread::get_id();
            return absl::OkStatus();
        });
    }
    EXPECT_TRUE(calls.finish().ok());
    EXPECT_TRUE(calls.is_idle());
    EXPECT_EQ(made, (std::vector<int>{0, 1, 2, 3, 4}));
    EXPECT_NE(there, std::this_thread::get_id());
}

TEST(QueuedCalls, DoNotHoldTheirCallerUp) {
    std::promise<void> go;
    bool second = false;
    queued_calls calls;
    calls.push([&] {
        go.get_future().wait();
        return absl::OkStatus();
    });
    calls.push([&] {
        second = true;
        return absl::OkStatus();
    });
    EXPECT_FALSE(calls.is_idle());
    go.set_value();
    EXPECT_TRUE(calls.finish().ok());
    EXPECT_TRUE(second);
}

TEST(QueuedCalls, ReportTheFirstErrorOnce) {
    queued_calls calls;
    calls.push([] { return absl::InternalError("the first"); });
    calls.push([] { return absl::InternalError("the second"); });
    EXPECT_EQ(calls.finish(), absl::InternalError("the first"));
    EXPECT_TRUE(calls.finish().ok());
}

TEST(QueuedCalls, EndBehindTheCallUnderWay) {
    std::promise<void> begun;
    std::promise<void> go;
    bool ended = false;
    std::thread helper;
    {
        queued_calls calls;
        calls.push([&] {
            begun.set_value();
            go.get_future().wait();
            ended = true;
            return absl::OkStatus();
        });
        begun.get_future().wait();
        helper = std::thread([&] { go.set_value(); });
    }
    EXPECT_TRUE(ended);
    helper.join();
}

}  // namespace
}  // namespace orchard
