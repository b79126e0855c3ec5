// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Calls that may block: their caller waits until a deadline, and no other call begins until they have ended.

#include "uvm/memory/bounded_calls.hpp"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "tests/backing/elastic_fixture.hpp"

namespace orchard {
namespace {

using detail::bounded_calls;

TEST(BoundedCalls, ReturnWhatTheCallReturns) {
    bounded_calls calls(absl::Hours(1), "wait");
    const std::thread::id here = std::this_thread::get_id();
    std::thread::id there = here;
    EXPECT_TRUE(calls
                    .run("a call",
                         [&] {
                             there = std::this_thread::get_id();
                             return absl::OkStatus();
                         })
                    .ok());
    EXPECT_NE(there, here);
    EXPECT_EQ(calls.run("a call", [] { return absl::InternalError("its own words"); }),
              absl::InternalError("its own words"));
    EXPECT_TRUE(calls.run("a call", [] { return absl::OkStatus(); }).ok()) << "an error is reported once";
    EXPECT_TRUE(calls.is_idle());
}

TEST(BoundedCalls, ACallThatBlocksEndsAtTheDeadlineAndIsWaitedForByNoOther) {
    std::promise<void> go;
    std::promise<void> ended;
    bounded_calls calls(absl::Milliseconds(20), "launch later");
    const absl::Status late = calls.run("clearing 7 bytes", [&] {
        go.get_future().wait();
        ended.set_value();
        return absl::InternalError("reported to no caller");
    });
    EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
    expect_text(late, {"clearing 7 bytes", "20ms", "launch later"});
    EXPECT_FALSE(calls.is_idle());

    bool made = false;
    const absl::Status refused = calls.run("a copy", [&] {
        made = true;
        return absl::OkStatus();
    });
    EXPECT_EQ(refused.code(), absl::StatusCode::kDeadlineExceeded);
    expect_text(refused, {"a copy", "earlier call", "launch later"});
    EXPECT_EQ(calls.check_idle("a copy"), refused);
    EXPECT_FALSE(calls.is_idle());

    go.set_value();
    ended.get_future().wait();
    while (!calls.is_idle()) {
        std::this_thread::yield();
    }
    EXPECT_FALSE(made);
    EXPECT_TRUE(calls.check_idle("a copy").ok());
    // An empty call may be late as well if the machine is busy, which is no fault.
    while (!calls.run("a copy", [] { return absl::OkStatus(); }).ok()) {
        while (!calls.is_idle()) {
            std::this_thread::yield();
        }
    }
}

TEST(BoundedCalls, TheEndWaitsForTheCallUnderWay) {
    std::promise<void> go;
    bool ended = false;
    std::thread later;
    {
        bounded_calls calls(absl::Milliseconds(1), "wait");
        EXPECT_FALSE(calls
                         .run("a call",
                              [&] {
                                  go.get_future().wait();
                                  ended = true;
                                  return absl::OkStatus();
                              })
                         .ok());
        later = std::thread([&] { go.set_value(); });
    }
    EXPECT_TRUE(ended);
    later.join();
}

}  // namespace
}  // namespace orchard
