// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A heap of the emulated device in a process whose calls fail, that is interrupted by signals, or that forks. Each
/// call of `mmap`, `mprotect` and `pthread_create` that a heap's life makes fails once, and in another run with all
/// behind it: creation, launch or call then fail with a message, blocks are intact, and the next heap works.
///
/// `.ci/nightly` repeats these tests.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "device/heap_ref.cuh"
#include "device/simt/launch.cuh"
#include "runtime/heap/heap.hpp"
#include "tests/faults/failing_calls.hpp"

namespace orchard::test {
namespace {

/// Each thread allocates blocks of growing size, writes them, and frees them if they are as it left them. A block that
/// is not is kept, so that the heap does not look empty at the end.
struct use_blocks {
    heap_ref heap;
    static constexpr int rounds = 6;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t own = at.global_thread() + 1;
        std::uint64_t bytes = 64 << at.thread % 4;
        for (int i = 0; i < rounds; ++i, bytes *= 4) {
            auto* const p = static_cast<std::uint64_t*>(heap.malloc(bytes));
            if (p == nullptr) {
                continue;
            }
            p[0] = own;
            p[bytes / 8 - 1] = own;
            simt::pause(100);
            if (p[0] == own && p[bytes / 8 - 1] == own) {
                heap.free(p);
            }
        }
    }
};

options small_heap() {
    options o;
    o.device = device_option::emulated;
    o.capacity = 512 << 20;
    // Each stack of a lane is one call of `mmap`. With as many workers as cores, the tests would have a run for each
    // core's stacks.
    o.emulated_workers = 2;
    return o;
}
/// The same where calls fail: a request whose commit does not come then waits no longer than this.
options impatient_heap() {
    options o = small_heap();
    o.request_timeout = absl::Milliseconds(200);
    return o;
}

/// What one life of a heap has come to.
struct life {
    bool was_created = false;
    bool has_run = false;         ///< the kernel ended without an error
    std::uint64_t failed = 0;     ///< requests that got null
    std::string errors;           ///< of all calls
    std::uint64_t left_over = 0;  ///< blocks that were not freed
};

/// Creates a heap, uses it in a kernel and from the host, and destroys it. `before_the_end` is called when all is done
/// but the last look at the heap.
template <class Function>
life live(const options& values, Function before_the_end) {
    life l;
    const auto note = [&](const absl::Status& s) { absl::StrAppend(&l.errors, s.ok() ? "" : s.ToString() + "\n"); };
    auto made = heap::create(values);
    note(made.status());
    if (!made.ok()) {
        before_the_end();
        return l;
    }
    l.was_created = true;
    const simt::launch_result ran = simt::launch(made->executor(), simt::grid{4, 64}, use_blocks{made->ref()});
    l.has_run = ran.ok;
    absl::StrAppend(&l.errors, ran.error);
    const auto block = made->allocate_on_host(1 << 20);
    note(block.status());
    note(made->free_on_host(block.value_or(nullptr)));
    note(made->on_failure([](const failure&) {}));
    note(made->trim());
    note(made->validate());
    before_the_end();
    if (!ran.ok) {
        return l;  // lanes stopped anywhere, as in a kernel that a GPU has ended; the heap is good for its end only
    }
    // Nothing fails any more, but the thread of an impatient heap may get no core in time.
    for (int i = 0; i < 100 && absl::IsDeadlineExceeded(made->trim()); ++i) {
    }
    for (int i = 0; i < 100 && absl::IsDeadlineExceeded(made->validate()); ++i) {
    }
    EXPECT_TRUE(made->trim().ok());
    EXPECT_TRUE(made->validate().ok()) << made->validate();
    const auto s = made->stats();
    EXPECT_TRUE(s.ok()) << s.status();
    l.failed = s.ok() ? s->failed_allocations : 0;
    l.left_over = s.ok() ? s->allocations - s->frees : 0;
    return l;
}

/// A heap of a process in which nothing fails.
void expect_that_a_heap_works(const std::string& after) {
    const life l = live(small_heap(), [] {});
    EXPECT_TRUE(l.was_created && l.has_run) << after << ": " << l.errors;
    EXPECT_EQ(l.errors, "") << after;
    EXPECT_EQ(l.failed, 0u) << after;
    EXPECT_EQ(l.left_over, 0u) << after;
}

class heap_of_a_process : public testing::Test {
protected:
    void SetUp() override {
        expect_that_a_heap_works("at first");  // the device keeps threads and stacks for later launches
    }
};

/// Returns the errors of creating a heap, one for each call of `mmap` that fails in it, until none does.
std::vector<std::string> errors_of_creation(mailbox_memory_option memory) {
    options values = small_heap();
    values.mailbox_memory = memory;
    std::vector<std::string> errors;
    bool came = true;
    for (std::uint32_t nth = 1; came && nth < 2'000; ++nth) {
        const failure_of_call failing(failing_call::mmap, nth, failure_of_call::how::once);
        const auto made = heap::create(values);
        came = failing.came();
        if (!made.ok()) {
            errors.emplace_back(made.status().message());
        }
    }
    EXPECT_FALSE(came) << "the calls of a creation do not end";
    return errors;
}

TEST_F(heap_of_a_process, names_the_remedy_where_a_managed_mailbox_cannot_be_had) {
    const auto remedies = [](mailbox_memory_option memory) {
        return std::ranges::count_if(errors_of_creation(memory), [](const std::string& error) {
            return error.starts_with("mailbox_memory managed: ") && error.ends_with("; use mailbox_memory pinned");
        });
    };
    EXPECT_EQ(remedies(mailbox_memory_option::managed), 1) << "the mailbox is one call of mmap";
    EXPECT_EQ(remedies(mailbox_memory_option::pinned), 0);
    expect_that_a_heap_works("after the errors");
}

class failing_calls : public heap_of_a_process, public testing::WithParamInterface<failing_call> {};

TEST_P(failing_calls, are_errors_and_nothing_is_lost) {
    for (const auto until : {failure_of_call::how::once, failure_of_call::how::from_then_on}) {
        bool came = true;
        std::uint32_t nth = 1;
        for (; came && nth < 2'000 && !HasFailure(); ++nth) {
            const std::string which = absl::StrCat(name_of(GetParam()), ", call ", nth);
            {
                std::optional<failure_of_call> failing(std::in_place, GetParam(), nth, until);
                const life l = live(impatient_heap(), [&] {
                    came = failing->came();
                    failing.reset();
                });
                EXPECT_EQ(l.left_over, 0u) << which;
                EXPECT_TRUE(!l.was_created || l.has_run || !l.errors.empty()) << which << ": no error and no result";
                EXPECT_TRUE(l.was_created || !l.errors.empty()) << which;
            }
            expect_that_a_heap_works(which);
        }
        EXPECT_GT(nth, 2u) << "a heap makes no such call";
        EXPECT_FALSE(came) << "the calls of a heap's life do not end";
    }
}
INSTANTIATE_TEST_SUITE_P(all, failing_calls,
                         testing::Values(failing_call::mmap, failing_call::mprotect, failing_call::pthread_create),
                         [](const auto& i) { return std::string(name_of(i.param)); });

/// The same in a process that has no threads and stacks of earlier launches: each time in a child of this process,
/// which launches nothing itself.
class failing_calls_at_first : public testing::TestWithParam<failing_call> {};

enum class end_of_child : int { nothing_failed, as_it_should, wrong };

/// A heap's life in which a call fails; ends the process.
[[noreturn]] void live_and_exit(failing_call call, std::uint32_t nth, failure_of_call::how until) {
    ::alarm(20);  // a child that hangs is ended
    bool came = true;
    std::optional<failure_of_call> failing(std::in_place, call, nth, until);
    const life l = live(impatient_heap(), [&] {
        came = failing->came();
        failing.reset();
    });
    EXPECT_EQ(l.left_over, 0u);
    EXPECT_TRUE((l.was_created && l.has_run) || !l.errors.empty()) << "no error and no result";
    ::_exit(static_cast<int>(testing::Test::HasFailure() ? end_of_child::wrong
                             : came                      ? end_of_child::as_it_should
                                                         : end_of_child::nothing_failed));
}

TEST_P(failing_calls_at_first, are_errors_and_nothing_is_lost) {
    for (const auto until : {failure_of_call::how::once, failure_of_call::how::from_then_on}) {
        auto end = end_of_child::as_it_should;
        std::uint32_t nth = 1;
        for (; end == end_of_child::as_it_should && nth < 2'000; ++nth) {
            const pid_t child = ::fork();
            if (child == 0) {
                live_and_exit(GetParam(), nth, until);
            }
            int status = 0;
            ASSERT_EQ(::waitpid(child, &status, 0), child);
            ASSERT_TRUE(WIFEXITED(status))
                << name_of(GetParam()) << ", call " << nth << ": signal " << WTERMSIG(status);
            end = static_cast<end_of_child>(WEXITSTATUS(status));
        }
        EXPECT_GT(nth, 2u) << "a heap makes no such call";
        EXPECT_EQ(end, end_of_child::nothing_failed) << name_of(GetParam()) << ", call " << nth - 1;
    }
}
INSTANTIATE_TEST_SUITE_P(all, failing_calls_at_first,
                         testing::Values(failing_call::mmap, failing_call::mprotect, failing_call::pthread_create),
                         [](const auto& i) { return std::string(name_of(i.param)); });

/// Counts the lanes that have run.
struct count_lanes {
    std::atomic<std::uint64_t>* ran;
    ORCHARD_FN void operator()(simt::thread_position) const {
        simt::pause(100);
        ran->fetch_add(1);
    }
};

/// Returns how a child ends whose first launch has two workers, and in which the call `nth` fails: 0 if either all
/// lanes ran, or none and there is an error; 1 if no call failed, too.
int launch_with_failing_call(failing_call call, std::uint32_t nth) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(20);
        std::atomic<std::uint64_t> ran{0};
        simt::executor on;
        on.workers = 2;
        std::optional<failure_of_call> failing(std::in_place, call, nth, failure_of_call::how::once);
        // More lanes than other tests of this program have, whose stacks are kept.
        const simt::grid shape{8, 192};
        const auto launched = simt::launch(on, shape, count_lanes{&ran});
        const bool came = failing->came();
        failing.reset();
        const bool right =
            launched.ok ? ran == shape.blocks * shape.threads_per_block : ran == 0 && !launched.error.empty();
        ::_exit(!right ? 2 : came ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

TEST_P(failing_calls_at_first, end_no_kernel_half_way) {
    int end = 0;
    std::uint32_t nth = 1;
    for (; end == 0 && nth < 2'000; ++nth) {
        end = launch_with_failing_call(GetParam(), nth);
    }
    if (GetParam() != failing_call::pthread_create) {  // helpers of earlier launches are kept, too
        EXPECT_GT(nth, 2u) << "a launch makes no such call";
    }
    EXPECT_EQ(end, 1) << name_of(GetParam()) << ", call " << nth - 1;
}

/// Interrupts each thread of the process again and again, without SA_RESTART, so that calls return EINTR.
class signal_storm {
public:
    signal_storm() {
        struct sigaction handler {};
        handler.sa_handler = [](int) { (::gettid() == ::getpid() ? at_main_ : at_others_).fetch_add(1); };
        ::sigaction(SIGUSR1, &handler, nullptr);
        sender_ = std::jthread([](const std::stop_token& over) {
            while (!over.stop_requested()) {
                for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
                    const int id = std::stoi(thread.path().filename());
                    if (id != ::gettid()) {
                        (void)::syscall(SYS_tgkill, ::getpid(), id, SIGUSR1);  // the thread may have ended
                    }
                }
                std::this_thread::sleep_for(std::chrono::microseconds(100));
            }
        });
    }
    ~signal_storm() {
        sender_.request_stop();
        sender_.join();
        // A thread that has blocked signals gets one that waits for it only now, or when it ends: that one is
        // discarded.
        ::signal(SIGUSR1, SIG_IGN);
    }
    signal_storm(const signal_storm&) = delete;
    signal_storm& operator=(const signal_storm&) = delete;

    /// Signals that the first thread has got, and those of all others.
    static std::uint64_t at_main() { return at_main_.load(); }
    static std::uint64_t at_others() { return at_others_.load(); }

private:
    static inline std::atomic<std::uint64_t> at_main_{0};
    static inline std::atomic<std::uint64_t> at_others_{0};
    std::jthread sender_;
};

TEST_F(heap_of_a_process, works_while_signals_come) {
    const signal_storm storm;
    for (int i = 0; i < 20; ++i) {
        expect_that_a_heap_works("signals");
    }
    EXPECT_GT(signal_storm::at_main(), 20u) << "few signals came";
    EXPECT_GT(signal_storm::at_others(), 20u) << "few signals came to the threads of heap and device";
}

/// Returns how a child ended that was forked now and calls its parent's heap: 0 if the heap refused each call.
int fork_and_use(heap& parents) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(20);  // a child that hangs is ended
        int wrong = absl::IsFailedPrecondition(parents.trim()) ? 0 : 1;
        wrong += absl::IsFailedPrecondition(parents.stats().status()) ? 0 : 2;
        ::_exit(wrong);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

TEST_F(heap_of_a_process, works_while_the_process_forks) {
    auto made = heap::create(small_heap());
    ASSERT_TRUE(made.ok()) << made.status();
    std::atomic<bool> over{false};
    std::uint64_t launches = 0;
    std::thread kernels([&] {
        do {
            const auto ran = simt::launch(made->executor(), simt::grid{4, 64}, use_blocks{made->ref()});
            EXPECT_TRUE(ran.ok) << ran.error;
            ++launches;
        } while (!over.load());
    });
    for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(fork_and_use(*made), 0);
    }
    over = true;
    kernels.join();
    EXPECT_GT(launches, 0u);
    EXPECT_TRUE(made->trim().ok());
    EXPECT_TRUE(made->validate().ok()) << made->validate();
    const auto s = made->stats();
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_EQ(s->failed_allocations, 0u);
    EXPECT_EQ(s->allocations, s->frees);
}

}  // namespace
}  // namespace orchard::test
