// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The thread that runs a service.

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <latch>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "host/service_thread.hpp"
#include "tests/support/service_rig.hpp"

namespace orchard {
namespace {

using rig::ring_client;
using rig::service_rig;

/// Waits for a condition that must become true.
template <class Condition>
void wait_for(Condition condition) {
    while (!condition()) {
        std::this_thread::yield();
    }
}

/// Runs a job on the service's thread, which is not held up.
void run(service_thread& thread, const std::function<void()>& job) {
    const absl::Status ran = thread.run("a test", absl::Hours(1), job);
    EXPECT_TRUE(ran.ok()) << ran;
}

TEST(ServiceThread, AnswersPosts) {
    service_rig host;
    ring_client client(host.box);
    service_thread thread(host.service, -1, absl::Milliseconds(1));
    for (std::uint32_t i = 0; i < 200; ++i) {
        const auto id = client.ask(1);
        std::optional<mailbox::response> a;
        wait_for([&] { return (a = client.take()).has_value(); });
        EXPECT_EQ(rig::id_of(*a), id);
        EXPECT_EQ(a->run.first, segment_index{i});
    }
    thread.stop();
    EXPECT_TRUE(host.service.validate().ok());
}

TEST(ServiceThread, SleepsWhenThereIsNoTrafficAndStillBeatsAndAnswers) {
    service_rig host;
    ring_client client(host.box);
    service_thread thread(host.service, -1, absl::ZeroDuration());
    wait_for([&] { return thread.sleeps() >= 10; });
    const std::uint64_t heartbeats = host.box.heartbeats();
    wait_for([&] { return host.box.heartbeats() > heartbeats; });
    client.ping();
    wait_for([&] { return client.take().has_value(); });
    const std::uint64_t sleeps = thread.sleeps();
    wait_for([&] { return thread.sleeps() >= sleeps + 10; });
}

TEST(ServiceThread, SleepsForAThousandthOfThePause) {
    EXPECT_EQ(service_thread::nap_after(absl::ZeroDuration()), absl::Microseconds(20));
    EXPECT_EQ(service_thread::nap_after(absl::Milliseconds(20)), absl::Microseconds(20));
    EXPECT_EQ(service_thread::nap_after(absl::Milliseconds(500)), absl::Microseconds(500));
    EXPECT_EQ(service_thread::nap_after(absl::Hours(1)), absl::Milliseconds(1));
}

TEST(ServiceThread, SaysTheLongestRunWhenItIsAskedTo) {
    service_rig host;
    ring_client client(host.box);
    service_thread thread(host.service, -1, absl::Milliseconds(1));
    const std::uint64_t all = host.service.segments();
    ASSERT_TRUE(thread.publish(absl::InfiniteFuture()));
    EXPECT_EQ(host.service.counters().longest_free_run.get(), all);
    client.ask(7);
    wait_for([&] { return client.take().has_value(); });
    ASSERT_TRUE(thread.publish(absl::InfiniteFuture()));
    EXPECT_EQ(host.service.counters().longest_free_run.get(), all - 7);
    run(thread, [&] { EXPECT_FALSE(thread.publish(absl::InfinitePast())) << "it cannot while it does this"; });
    client.ask(5);
    wait_for([&] { return client.take().has_value(); });
    thread.stop();
    EXPECT_TRUE(thread.publish(absl::InfinitePast()));
    EXPECT_EQ(host.service.counters().longest_free_run.get(), all - 12) << "as it was when the thread ended";
}

TEST(ServiceThread, DoesNotSleepWhileItIsToSpin) {
    service_rig host;
    service_thread thread(host.service, -1, absl::Hours(1));
    const std::uint64_t heartbeats = host.box.heartbeats();
    wait_for([&] { return host.box.heartbeats() > heartbeats + 10'000; });
    EXPECT_EQ(thread.sleeps(), 0u);
}

TEST(ServiceThread, RunsJobsBetweenPolls) {
    service_rig host;
    service_thread thread(host.service, -1, absl::ZeroDuration());
    std::thread::id on;
    std::uint64_t before = 0;
    std::uint64_t after = 0;
    run(thread, [&] {
        on = std::this_thread::get_id();
        before = host.box.heartbeats();
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        after = host.box.heartbeats();
        EXPECT_TRUE(host.service.validate().ok());
    });
    EXPECT_NE(on, std::this_thread::get_id());
    EXPECT_EQ(before, after) << "the service polled during a job";
}

TEST(ServiceThread, RunsTheJobsOfManyThreadsOneAtATime) {
    service_rig host;
    service_thread thread(host.service, -1, absl::ZeroDuration());
    int done = 0;  // written by the service's thread only
    std::vector<std::thread> callers;
    for (int i = 0; i < 4; ++i) {
        callers.emplace_back([&] {
            for (int j = 0; j < 25; ++j) {
                run(thread, [&] { ++done; });
            }
        });
    }
    for (auto& c : callers) {
        c.join();
    }
    int seen = 0;
    run(thread, [&] { seen = done; });
    EXPECT_EQ(seen, 100);
}

TEST(ServiceThread, AJobThatIsNotBegunInTimeIsNeverRunAndOneThatWasPostedIs) {
    service_rig host;
    service_thread thread(host.service, -1, absl::ZeroDuration());
    std::latch held(1);
    std::latch over(1);
    std::jthread holder([&] {
        run(thread, [&] {
            held.count_down();
            over.wait();
        });
    });
    held.wait();
    bool late = false;
    const absl::Status refused = thread.run("validate", absl::Milliseconds(3), [&] { late = true; });
    EXPECT_EQ(refused, absl::DeadlineExceededError(
                           "validate: the service's thread did not turn to it within 3ms; give the thread a core of "
                           "its own (option service_core), or raise the option request_timeout"));
    bool posted = false;
    thread.post([&] { posted = true; });
    over.count_down();
    holder.join();
    bool posted_before = false;
    run(thread, [&] { posted_before = posted; });
    EXPECT_TRUE(posted_before);
    EXPECT_FALSE(late);
}

TEST(ServiceThread, AJobThatHasBegunIsWaitedForBeyondTheLimit) {
    constexpr absl::Duration limit = absl::Milliseconds(20);
    service_rig host;
    service_thread thread(host.service, -1, absl::ZeroDuration());
    absl::Status ran;
    do {  // on a busy machine, the thread may not begin in time
        bool begun = false;
        bool done = false;
        ran = thread.run("a test", limit, [&] {
            begun = true;
            absl::SleepFor(2 * limit);
            done = true;
        });
        EXPECT_EQ(begun, ran.ok());
        EXPECT_EQ(done, ran.ok());
    } while (!ran.ok());
}

TEST(ServiceThread, AfterStopNothingIsAnsweredAndJobsRunInTheCaller) {
    service_rig host;
    ring_client client(host.box);
    service_thread thread(host.service, -1, absl::ZeroDuration());
    thread.stop();
    const std::uint64_t heartbeats = host.box.heartbeats();
    client.ping();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_FALSE(client.take().has_value());
    EXPECT_EQ(host.box.heartbeats(), heartbeats);
    std::thread::id on;
    run(thread, [&] { on = std::this_thread::get_id(); });
    EXPECT_EQ(on, std::this_thread::get_id());
    thread.post([&] { on = {}; });
    EXPECT_EQ(on, std::thread::id{});
    thread.stop();
    EXPECT_EQ(host.service.poll_once(), 1u) << "the service can be polled by hand now";
}

TEST(ServiceThread, ACoreThatTheMachineDoesNotHaveIsIgnored) {
    for (const int core : {0, 1023, 1'000'000}) {
        service_rig host;
        ring_client client(host.box);
        service_thread thread(host.service, core, absl::ZeroDuration());
        client.ping();
        wait_for([&] { return client.take().has_value(); });
    }
}

}  // namespace
}  // namespace orchard
