// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Shows which CUDA calls complete while a kernel runs and another host thread makes a call, the *blocker*. A heap can
/// grow during every blocker that lets the virtual-memory calls complete.
///
///     nvcc -arch=sm_90 -std=c++17 -cudart static -I. profiling/driver_locks/driver_locks.cu -lcuda -o driver_locks
///     ./driver_locks [--json FILE] [--only TEXT]     TEXT: a part of the blockers' names
///
/// For each blocker, a kernel spins on the default stream, one thread repeats the blocker's call, and another thread
/// makes the steps one after the other. A step that has not ended after 100 ms is `blocked`: the kernel is ended, and
/// the steps after it run beside the next kernel. A step that queues work has two rows: the call, and the completion of
/// the work.
///
/// Ranges of NVTX without a domain mark the phases: build and free, the objects of the steps; compute, the steps beside
/// one kernel.
///
/// This program is separate from all others and uses no code of Orchard. Exit codes: 0 done, 1 a call failed (its name
/// and error are printed), 2 wrong arguments, 3 no end after 120 s.

#if !defined(ORCHARD_HAS_CUDA)  // a build of Orchard compiles every source below profiling/ into its own program

#include <nvtx3/nvToolsExt.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <future>
#include <memory>
#include <new>
#include <thread>

#include "profiling/driver_locks/blockers.cuh"
#include "profiling/driver_locks/steps.cuh"

namespace driver_locks {
namespace {

using std::chrono::milliseconds;
using steady = std::chrono::steady_clock;

constexpr auto step_limit = milliseconds(100);      // a step that takes longer is blocked
constexpr auto settle = milliseconds(30);           // a blocker whose call takes longer waits for the kernel
constexpr auto kernel_is_old = milliseconds(1200);  // no step begins later than this after its kernel
constexpr unsigned long long kernel_deadline_ns = 1'500'000'000;
constexpr auto program_deadline = std::chrono::seconds(120);

/// A range of the calling thread, while this object lives.
struct phase {
    explicit phase(const char* name) { nvtxRangePushA(name); }
    phase(const phase&) = delete;
    phase& operator=(const phase&) = delete;
    ~phase() { nvtxRangePop(); }
};

double us_since(steady::time_point began) {
    return std::chrono::duration<double, std::micro>(steady::now() - began).count();
}

/// Words in mapped memory of the host.
struct shared_words {
    int running;   ///< the newest kernel that runs; written by the device
    int released;  ///< the newest kernel that may end; written by the host
};

__global__ void spin(volatile shared_words* words, int kernel) {
    unsigned long long began = 0;
    unsigned long long now = 0;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(began));
    words->running = kernel;
    __threadfence_system();
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (words->released < kernel && now - began < kernel_deadline_ns);
}

/// One result.
struct row {
    std::string blocker;
    std::string step;
    std::string outcome;          ///< through, blocked, not available, failed
    double us = -1;               ///< duration of the step; negative if it was blocked
    bool blocker_waited = false;  ///< the blocker's call was in progress all the time
    std::string error;
};

/// Makes all steps during each blocker.
class measurement {
public:
    measurement() : steps_{&bench_} {
        void* words = nullptr;
        check(cudaHostAlloc(&words, sizeof(shared_words), cudaHostAllocMapped), "cudaHostAlloc");
        words_ = new (words) shared_words{};
        spin<<<1, 1>>>(words_, 0);  // loads it
        check(cudaGetLastError(), "launch");
        check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    }
    void run(const char* only) {
        for (const blocker& b : bench_.blockers) {
            if (only != nullptr && b.name.find(only) == std::string::npos) {
                continue;
            }
            const std::size_t first = rows.size();
            {
                const phase now("build");
                steps_.prepare();
            }
            std::size_t next = 0;
            while (next < steps_.steps.size()) {
                const phase now("compute");
                next = run_beside_one_kernel(b, next);
            }
            {
                const phase now("free");
                steps_.clean();
            }
            print(first);
        }
    }
    std::vector<row> rows;

private:
    std::size_t run_beside_one_kernel(const blocker& b, std::size_t next);
    void launch(const blocker& b);
    void make_calls(const blocker& b);
    bool try_step(const blocker& b, const step& s, bool waited);
    std::string end_kernel(std::future<void>* calls);
    void end_blocker(const blocker& b);
    void print(std::size_t first) const;

    bench bench_;
    step_list steps_;
    volatile shared_words* words_ = nullptr;
    int kernel_ = 0;
    std::atomic<int> made_{0};  ///< calls of the blocker that have returned during this kernel
    std::atomic<bool> over_{false};
    std::future<void> trying_;  ///< the current step
};

void measurement::launch(const blocker& b) {
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    made_ = 0;
    over_ = false;
    ++kernel_;
    spin<<<1, 1, 0, b.apart ? bench_.own : nullptr>>>(words_, kernel_);
    check(cudaGetLastError(), "launch");
    const auto began = steady::now();
    while (words_->running != kernel_) {
        if (steady::now() - began > std::chrono::seconds(1)) {
            throw std::runtime_error("the kernel did not begin within 1 s");
        }
    }
}

/// The blocker's thread.
void measurement::make_calls(const blocker& b) {
    check(cuCtxSetCurrent(bench_.context), "cuCtxSetCurrent");
    for (int i = 0; i < b.most && !over_; ++i) {
        b.call();
        ++made_;
    }
}

/// Returns true if the step and the work that it queued ended in time. Otherwise the step is still running.
bool measurement::try_step(const blocker& b, const step& s, bool waited) {
    struct times {
        std::atomic<double> call{-1};
        std::atomic<double> completion{-1};
    };
    const auto taken = std::make_shared<times>();
    trying_ = std::async(std::launch::async, [taken, &s, this] {
        check(cuCtxSetCurrent(bench_.context), "cuCtxSetCurrent");
        const auto began = steady::now();
        s.call();
        taken->call = us_since(began);
        if (s.completion) {
            s.completion();
        }
        taken->completion = us_since(began);
    });
    const bool ended = trying_.wait_for(step_limit) == std::future_status::ready;
    const double call = taken->call;
    const double completion = taken->completion;
    std::string error;
    if (ended) {
        try {
            trying_.get();
        } catch (const std::exception& e) {
            error = e.what();
        }
    }
    const auto outcome = [&](double us) {
        return us >= 0 ? "through" : !ended ? "blocked" : s.optional ? "not available" : "failed";
    };
    rows.push_back({b.name, s.name, outcome(call), call, waited, error});
    if (s.completion) {
        rows.push_back({b.name, s.name + ", completion", outcome(completion), completion, waited, error});
    }
    return ended;
}

/// Ends the kernel and waits for all calls that wait for it. Returns the blocker's error, or an empty string.
std::string measurement::end_kernel(std::future<void>* calls) {
    over_ = true;
    words_->released = kernel_;
    std::string error;
    for (std::future<void>* each : {&trying_, calls}) {
        try {
            if (each->valid()) {
                each->get();
            }
        } catch (const std::exception& e) {
            (each == calls ? error : rows.back().error) = e.what();
        }
    }
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return error;
}

/// Releases the objects of a blocker that failed, as far as possible.
void measurement::end_blocker(const blocker& b) {
    try {
        words_->released = kernel_;
        check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
        b.clean();
    } catch (const std::exception& e) {
        std::fprintf(stderr, "driver_locks: %s, afterwards: %s\n", b.name.c_str(), e.what());
    }
    bench_.objects.clear();
}

/// Makes the steps from `next` on until one is blocked. Returns the first step that was not made.
std::size_t measurement::run_beside_one_kernel(const blocker& b, std::size_t next) {
    const std::size_t first = rows.size();
    std::string error;
    try {
        b.prepare();
        launch(b);
        const auto began = steady::now();
        auto calls = std::async(std::launch::async, [&] { make_calls(b); });
        while (made_ == 0 && calls.wait_for(milliseconds(0)) != std::future_status::ready &&
               steady::now() - began < settle) {
        }
        const bool waited = made_ == 0;
        bool ended = true;
        while (ended && next < steps_.steps.size() && steady::now() - began < kernel_is_old) {
            ended = try_step(b, steps_.steps[next++], waited);
        }
        error = end_kernel(&calls);
        b.clean();
    } catch (const std::exception& e) {
        error = e.what();
        end_blocker(b);
    }
    if (error.empty()) {
        return next;
    }
    std::fprintf(stderr, "driver_locks: %s: %s\n", b.name.c_str(), error.c_str());
    rows.resize(first);
    rows.push_back({b.name, "all that are left", "not available", -1, false, error});
    return steps_.steps.size();
}

void measurement::print(std::size_t first) const {
    for (std::size_t i = first; i < rows.size(); ++i) {
        const row& r = rows[i];
        std::printf("%-45s %-7s %-38s %-13s", r.blocker.c_str(), r.blocker_waited ? "waited" : "", r.step.c_str(),
                    r.outcome.c_str());
        r.us >= 0 ? std::printf(" %10.1f us\n", r.us) : std::printf("  %s\n", r.error.c_str());
    }
    std::fflush(stdout);
}

std::string quoted(const std::string& text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            result += '\\';
        }
        result += c < ' ' && c >= 0 ? ' ' : c;
    }
    return result + '"';
}

/// Returns true if all rows were written.
bool write_json(std::ofstream& out, const std::vector<row>& rows) {
    out << "[\n";
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const row& r = rows[i];
        out << R"( {"blocker": )" << quoted(r.blocker) << R"(, "blocker_waited": )"
            << (r.blocker_waited ? "true" : "false") << R"(, "step": )" << quoted(r.step) << R"(, "outcome": )"
            << quoted(r.outcome) << R"(, "us": )";
        r.us >= 0 ? out << r.us : out << "null";
        if (!r.error.empty()) {
            out << R"(, "error": )" << quoted(r.error);
        }
        out << (i + 1 < rows.size() ? "},\n" : "}\n");
    }
    out << "]\n";
    out.close();
    return !out.fail();
}

int run(const char* json, const char* only) {
    std::ofstream out;
    if (json != nullptr) {
        out.open(json);  // before the minutes of work
        if (!out) {
            std::fprintf(stderr, "driver_locks: %s: cannot be written\n", json);
            return 1;
        }
    }
    try {
        measurement all;
        all.run(only);
        bool failed = false;
        for (const row& r : all.rows) {
            failed = failed || r.outcome == "failed";
        }
        if (json != nullptr && !write_json(out, all.rows)) {
            std::fprintf(stderr, "driver_locks: %s: cannot be written\n", json);
            return 1;
        }
        return failed ? 1 : 0;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "driver_locks: %s\n", e.what());
        return 1;
    }
}

}  // namespace
}  // namespace driver_locks

int main(int count, char** arguments) {
    const char* json = nullptr;
    const char* only = nullptr;
    for (int i = 1; i < count; i += 2) {
        const bool is_json = std::strcmp(arguments[i], "--json") == 0;
        if (i + 1 == count || (!is_json && std::strcmp(arguments[i], "--only") != 0)) {
            std::fprintf(stderr, "usage: driver_locks [--json FILE] [--only TEXT]\n");
            return 2;
        }
        (is_json ? json : only) = arguments[i + 1];
    }
    std::thread([] {
        std::this_thread::sleep_for(driver_locks::program_deadline);
        std::fprintf(stderr, "driver_locks: no end after 120 s\n");
        std::_Exit(3);
    }).detach();
    const int code = driver_locks::run(json, only);
    std::fflush(nullptr);
    std::_Exit(code);  // exits without waiting for a blocked thread
}

#endif
