// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard bench storm`: several kernels in several streams use one heap at once, which begins with nothing, grows on
/// the device and beyond it, is trimmed, reserved, looked at, and used by the host meanwhile. Every block is checked
/// when it is freed; at the end nothing may be left. For ten minutes, or so many allocations.

#include <atomic>
#include <random>
#include <thread>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "device/heap_ref.cuh"
#include "profiling/bench/bench.hpp"
#include "profiling/bench/soak_runner.cuh"
#include "runtime/heap.hpp"
#include "uvm/memory_driver.hpp"

namespace orchard::bench::storm {
namespace {

using nlohmann::ordered_json;
using soak::counts;
using soak::plan;
using soak_runner = soak::runner<heap_ref>;

constexpr std::uint64_t mib = 1 << 20;
constexpr std::uint64_t gib = 1 << 30;
options heap_of(const settings& s) {
    options values = s.heap;
    const bool cuda = s.device == simt::device_kind::cuda;
    values.device = cuda ? device_option::cuda : device_option::emulated;
    values.backing = backing_option::elastic;
    // At times less than a slab for each size that is asked for: budgets are spent, too.
    values.capacity = cuda ? 8 * gib : 96 * mib;
    values.host_budget = cuda ? 4 * gib : 16 * mib;
    values.decay = absl::Milliseconds(50);
    return values;
}

plan plan_of(const settings& s) {
    const bool cuda = s.device == simt::device_kind::cuda;
    plan p;
    // Half of the slots are full most of the time, of some 15 KB each: the device budget now suffices and now does not.
    p.threads = cuda ? 8'192 : 32;
    p.slots_each = 16;
    p.sizes = {16, 256};
    p.deadline = std::max(absl::Minutes(2), 4 * s.heap.request_timeout);
    return p;
}

/// On the emulated device few: waiting lanes keep its cores from whom they wait for.
int streams_of(const settings& s) { return s.device == simt::device_kind::cuda ? 4 : 2; }

/// One stream: launches of random length, and now and then one that frees everything.
class worker {
public:
    static absl::StatusOr<worker> make(heap& h, const plan& p, simt::device_kind kind) {
        worker w;
        auto driver = kind == simt::device_kind::cuda ? make_cuda_driver() : make_emulated_driver();
        if (!driver.ok()) {
            return driver.status();
        }
        w.driver_ = *std::move(driver);
        simt::executor on = h.executor();
        on.stream = w.driver_->stream();
        auto made = soak_runner::create(on, h.ref(), p, [&h] { (void)h.close(); });
        if (!made.ok()) {
            return made.status();
        }
        w.runner_ = std::make_unique<soak_runner>(*std::move(made));
        return w;
    }
    absl::Status turn(std::mt19937_64& random) {
        ++launches_;
        if (random() % 4 == 0) {
            return runner_->drain();
        }
        return runner_->run(1 + static_cast<std::uint32_t>(random() % 64)).status();
    }
    absl::Status drain() { return runner_->drain(); }
    [[nodiscard]] const counts& counted() const { return runner_->counted(); }
    [[nodiscard]] std::uint64_t launches() const { return launches_; }

private:
    worker() = default;
    std::unique_ptr<memory_driver> driver_;  ///< has the stream
    std::unique_ptr<soak_runner> runner_;
    std::uint64_t launches_ = 0;
};

/// What the host does with the heap beside the kernels.
class host_side {
public:
    host_side(heap& h, std::uint64_t budget) : heap_{h}, budget_{budget} {}

    absl::Status turn() {
        switch (random_() % 6) {
            case 0: ++trims_; return heap_.trim();
            case 1: {
                ++reserves_;
                const absl::Status s = heap_.reserve(random_() % budget_);
                return absl::IsResourceExhausted(s) ? absl::OkStatus() : s;
            }
            case 2: return heap_.stats().status();
            case 3:
            case 4: return allocate();
            default: return free_one();
        }
    }
    absl::Status free_all() {
        absl::Status s;
        while (!blocks_.empty() && s.ok()) {
            s.Update(free_one());
        }
        return s;
    }
    [[nodiscard]] std::uint64_t trims() const { return trims_; }
    [[nodiscard]] std::uint64_t reserves() const { return reserves_; }
    [[nodiscard]] std::uint64_t allocations() const { return allocations_; }

private:
    absl::Status allocate() {
        const auto p = heap_.allocate_on_host(std::uint64_t{1} << random_() % 22);
        if (absl::IsResourceExhausted(p.status())) {
            return absl::OkStatus();
        }
        if (p.ok()) {
            ++allocations_;
            blocks_.push_back(*p);
        }
        return p.status();
    }
    absl::Status free_one() {
        if (blocks_.empty()) {
            return absl::OkStatus();
        }
        std::swap(blocks_[random_() % blocks_.size()], blocks_.back());
        const absl::Status s = heap_.free_on_host(blocks_.back());
        blocks_.pop_back();
        return s;
    }

    heap& heap_;
    std::uint64_t budget_;
    std::mt19937_64 random_{1};
    std::vector<void*> blocks_;
    std::uint64_t trims_ = 0;
    std::uint64_t reserves_ = 0;
    std::uint64_t allocations_ = 0;
};

absl::Status expect_nothing_left(const statistics& s, std::uint64_t allocations, std::uint64_t nulls) {
    absl::Status status = soak::expect_count("pages in use", s.pages_in_use, 0);
    status.Update(soak::expect_count("live chunks", s.live_chunks, 0));
    status.Update(soak::expect_count("segments granted", s.segments_granted, 0));
    status.Update(soak::expect_count("bytes committed", s.committed_bytes, 0));
    status.Update(soak::expect_count("frees", s.frees, s.allocations));
    status.Update(s.allocations >= allocations ? absl::OkStatus()
                                               : soak::expect_count("allocations", s.allocations, allocations));
    status.Update(soak::expect_count("failed allocations", s.failed_allocations, nulls));
    status.Update(soak::expect_count("invalid frees", s.invalid_frees, 0));
    return status;
}

/// All streams until `goal` allocations or the end of the time; then the end.
class run_of_storm {
public:
    run_of_storm(const settings& s, heap& h) : settings_{s}, heap_{h}, host_{h, h.configuration().capacity} {}

    absl::StatusOr<ordered_json> run() {
        for (int i = 0; i < streams_of(settings_); ++i) {
            auto w = worker::make(heap_, plan_of(settings_), settings_.device);
            if (!w.ok()) {
                return w.status();
            }
            workers_.push_back(*std::move(w));
        }
        if (absl::Status s = heap_.preload<soak::run_kernel<heap_ref>, soak::drain_kernel<heap_ref>>(); !s.ok()) {
            return s;
        }
        const absl::Time began = absl::Now();
        absl::Status status = rage(began);
        for (worker& w : workers_) {
            status.Update(w.drain());
        }
        status.Update(host_.free_all());
        status.Update(heap_.validate());
        status.Update(status.ok() ? heap_.trim() : absl::OkStatus());
        const auto stats = heap_.stats();
        status.Update(stats.status());
        const counts all = sum();
        if (status.ok()) {
            status.Update(expect_nothing_left(*stats, all.allocations, all.nulls));
        }
        if (!status.ok()) {
            return status;
        }
        return ordered_json::array({row(all, *stats, absl::Now() - began)});
    }

private:
    absl::Status rage(absl::Time began) {
        const std::uint64_t goal = settings_.operations != 0 ? settings_.operations : settings_.quick ? 3'000 : 0;
        const absl::Duration time = settings_.seconds != 0 ? absl::Seconds(settings_.seconds) : absl::Minutes(10);
        std::atomic<std::uint64_t> done{0};
        std::atomic<bool> over{false};  // counts and a flag: joining the threads orders the rest
        std::vector<absl::Status> ends(workers_.size());
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < workers_.size(); ++i) {
            threads.emplace_back([&, i] {
                std::mt19937_64 random(i);
                while (!over.load(std::memory_order_relaxed) && ends[i].ok()) {
                    const std::uint64_t before = workers_[i].counted().allocations;
                    ends[i].Update(workers_[i].turn(random));
                    done.fetch_add(workers_[i].counted().allocations - before, std::memory_order_relaxed);
                }
                over.store(true, std::memory_order_relaxed);
            });
        }
        absl::Status status;
        while (!over.load(std::memory_order_relaxed) && status.ok()) {
            status.Update(host_.turn());
            absl::SleepFor(absl::Milliseconds(1));
            const bool enough = goal != 0 ? done.load(std::memory_order_relaxed) >= goal : absl::Now() - began >= time;
            if (enough) {
                break;
            }
        }
        over.store(true, std::memory_order_relaxed);
        threads.clear();
        for (const absl::Status& s : ends) {
            status.Update(s);
        }
        return status;
    }
    [[nodiscard]] counts sum() const {
        counts all;
        for (const worker& w : workers_) {
            all.allocations += w.counted().allocations;
            all.frees += w.counted().frees;
            all.nulls += w.counted().nulls;
            all.mismatches += w.counted().mismatches;
            all.handed_over += w.counted().handed_over;
        }
        return all;
    }
    [[nodiscard]] ordered_json row(const counts& c, const statistics& s, absl::Duration took) const {
        std::uint64_t launches = 0;
        for (const worker& w : workers_) {
            launches += w.launches();
        }
        return {{"what", "storm"},
                {"streams", streams_of(settings_)},
                {"seconds", absl::ToDoubleSeconds(took)},
                {"launches", launches},
                {"allocations", c.allocations},
                {"nulls", c.nulls},
                {"mismatches", c.mismatches},
                {"handed_over", c.handed_over},
                {"trims", host_.trims()},
                {"reserves", host_.reserves()},
                {"host_allocations", host_.allocations()},
                {"peak_committed_mib", s.peak_committed_bytes / mib},
                {"released_mib", s.released_bytes / mib},
                {"left_committed_mib", s.committed_bytes / mib}};
    }

    const settings& settings_;
    heap& heap_;
    host_side host_;
    std::vector<worker> workers_;
};

absl::StatusOr<ordered_json> run(const settings& s) {
    auto h = heap::create(heap_of(s));
    if (!h.ok()) {
        return h.status();
    }
    return run_of_storm(s, *h).run();
}

const registrar registered{{"storm", "kernels in several streams, growth, trims and the host, all at once", run}};

}  // namespace
}  // namespace orchard::bench::storm
