// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A process that cannot start another thread, or that was forked from the heap's, gets an error.

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <optional>

#include "absl/strings/match.h"
#include "runtime/heap/heap.hpp"

namespace orchard {
namespace {

/// While it lives, no thread can be started: its stack would have a size that no address space has.
class no_more_threads {
public:
    no_more_threads() {
        pthread_attr_t wanted;
        EXPECT_EQ(::pthread_getattr_default_np(&wanted), 0);
        EXPECT_EQ(::pthread_attr_getstacksize(&wanted, &before_), 0);
        set(std::size_t{1} << 52);
        ::pthread_attr_destroy(&wanted);
    }
    ~no_more_threads() { set(before_); }

private:
    static void set(std::size_t stack) {
        pthread_attr_t wanted;
        EXPECT_EQ(::pthread_getattr_default_np(&wanted), 0);
        EXPECT_EQ(::pthread_attr_setstacksize(&wanted, stack), 0);
        EXPECT_EQ(::pthread_setattr_default_np(&wanted), 0);
        ::pthread_attr_destroy(&wanted);
    }

    std::size_t before_ = 0;
};

options small() {
    options o;
    o.device = device_option::emulated;
    o.capacity = 16 << 20;
    return o;
}

TEST(heap_threads, that_cannot_start_are_an_error_of_create) {
    {
        const no_more_threads limit;
        const auto made = heap::create(small());
        EXPECT_EQ(made.status().code(), absl::StatusCode::kResourceExhausted) << made.status();
        EXPECT_EQ(
            made.status().message(),
            "the heap: a thread cannot be started: Resource temporarily unavailable; allow this user or container "
            "more processes (ulimit -u)");
    }
    EXPECT_TRUE(heap::create(small()).ok());
}

TEST(heap_threads, on_a_core_that_is_not_there_are_an_error_of_create) {
    options o = small();
    o.service_core = 1023;
    const absl::Status refused = heap::create(o).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(absl::StrContains(refused.message(), "service_core: 1023: this process may not use that core"))
        << refused;
    o.service_core = ::sched_getcpu();
    EXPECT_TRUE(heap::create(o).ok());
}

TEST(heap_threads, that_cannot_start_are_an_error_of_on_failure) {
    auto made = heap::create(small());
    ASSERT_TRUE(made.ok()) << made.status();
    {
        const no_more_threads limit;
        EXPECT_EQ(made->on_failure([](const failure&) {}).code(), absl::StatusCode::kResourceExhausted);
    }
    EXPECT_TRUE(made->on_failure([](const failure&) {}).ok());
    EXPECT_TRUE(made->validate().ok());
}

/// Runs `child` in a forked process for at most 20 s. Returns its exit status; 255 if a signal ended it.
template <class Child>
int status_of_fork(Child child) {
    const pid_t id = ::fork();
    if (id == 0) {
        ::alarm(20);
        ::_exit(child());
    }
    int status = 0;
    EXPECT_EQ(::waitpid(id, &status, 0), id);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

TEST(heap_threads, are_missed_in_a_forked_process) {
    std::optional<heap> h;
    {
        auto made = heap::create(small());
        ASSERT_TRUE(made.ok()) << made.status();
        h.emplace(*std::move(made));
    }
    const auto block = h->allocate_on_host(1 << 20);
    ASSERT_TRUE(block.ok()) << block.status();
    EXPECT_EQ(
        status_of_fork([&] {
            int wrong = 0;
            for (const absl::Status& s : {h->validate(), h->trim(), h->reserve(1 << 20), h->free_on_host(*block),
                                          h->stats().status(), h->chunks().status(), h->allocate_on_host(64).status(),
                                          h->on_failure([](const failure&) {}), h->close()}) {
                wrong += absl::IsFailedPrecondition(s) ? 0 : 1;
            }
            // Without a wait for the services, which are not here.
            wrong += h->last_failure() || h->first_failure() || !h->failures().empty() ? 1 : 0;
            h.reset();
#if !defined(__SANITIZE_THREAD__)  // it ends a forked process that starts a thread
            wrong += heap::create(small()).ok() ? 0 : 1;
#endif
            return wrong;
        }),
        0);
    EXPECT_TRUE(h->free_on_host(*block).ok());
    EXPECT_TRUE(h->validate().ok());
}

}  // namespace
}  // namespace orchard
