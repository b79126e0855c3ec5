// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The code that all applications on real memory share: arrays in parts, timed launches, passes of bounded time,
/// checks. An application describes arrays, kernels and checks; the first error stays in the run, and later calls do
/// nothing, so that applications need no checks of errors.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "profiling/apps/app.hpp"
#include "profiling/apps/app_kernels.cuh"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/heap.hpp"

namespace orchard::apps {

/// The work of a pass: each thread has `items` of its own, which it does one after the other.
struct work {
    std::uint64_t items;      ///< of a thread
    double accesses_of_item;  ///< of a thread to elements
    double bytes_of_item;     ///< of these elements
};

/// The items of one launch, of each thread: `first` to `last` - 1.
struct item_range {
    std::uint64_t first;
    std::uint64_t last;
};

/// One run of an application. One thread of the host.
class app_run {
public:
    /// Both outlive the run. `begin` comes first, `end` last.
    app_run(heap& h, const job& j);

    absl::Status begin();
    /// Frees all arrays, checks that the heap is consistent and empty, and returns what was found.
    absl::StatusOr<outcome> end();

    [[nodiscard]] const job& what() const { return job_; }
    [[nodiscard]] std::uint64_t threads() const { return job_.threads; }
    [[nodiscard]] std::uint64_t seed() const { return job_.seed; }
    [[nodiscard]] bool ok() const { return status_.ok() && found_.error.ok(); }
    /// Keeps an error, if it is the first.
    void fail(absl::Status why) { status_.Update(std::move(why)); }
    /// Returns `items`, or records the error that `bytes` are too few for one item of each thread.
    std::uint64_t at_least_one(std::uint64_t items, const char* of);

    /// Returns an array of at least `elements` elements. Each thread allocates an equal part, rounded up to a multiple
    /// of `together`. `initial(i)`, a function object for kernels, is the value of element i, for all that exist.
    template <class T, class Initial>
    parts<T> array(std::uint64_t elements, std::uint64_t together, Initial initial) {
        const parts<T> made = allocate<T>(elements, together);
        found_.fill_us += fill(made, made.per_thread * threads(), initial);
        return made;
    }
    /// Sets elements 0 to `count` - 1, and returns the kernel's time. With more threads than the application has.
    template <class T, class Initial>
    double fill(const parts<T>& to, std::uint64_t count, Initial initial) {
        const std::uint64_t most = is_emulated() ? threads() : filling_threads;
        return launch(fill_parts<T, Initial>{to, count, initial}, std::min(most, std::max<std::uint64_t>(count, 1)));
    }

    /// Begins the next pass, and returns true if there is one: memory has moved between, if the job says so.
    bool next_pass();
    /// Runs a kernel of the application, as a part of the pass, with as many threads as the run has.
    template <class Kernel>
    void timed(const Kernel& kernel) {
        record(true);
        pass_us_ += launch(kernel, threads());
        record(false);
    }
    /// Returns true if this is the first pass and its kernels have taken the time that it may.
    [[nodiscard]] bool has_no_time_left() const { return found_.pass_us.empty() && pass_us_ >= job_.limit_s * 1e6; }
    /// Ends the pass. @param part  the share of the work that it did; @param bytes  of all elements accessed
    void end_pass(double part, double bytes);

    /// Returns the items of a launch, so that it is short.
    [[nodiscard]] std::uint64_t items_of_piece(const work& w) const;
    /// Runs all passes, each in pieces: `before()` untimed, then `piece(item_range)`, then `after()`, both of which
    /// call `timed`. The first pass ends when its time is spent, and the others do the same items. Returns their number
    /// for each thread.
    template <class Before, class Piece, class After>
    std::uint64_t passes(const work& w, Before before, Piece piece, After after) {
        std::uint64_t most = wanted_of(w.items);
        const std::uint64_t step = items_of_piece(w);
        while (next_pass()) {
            before();
            for (std::uint64_t done = 0; done < most && ok();) {
                const item_range r{done, std::min(most, done + step)};
                piece(r);
                done = r.last;
                most = has_no_time_left() ? done : most;
            }
            after();
            const auto items = static_cast<double>(most);
            end_pass(items / static_cast<double>(w.items), items * static_cast<double>(threads()) * w.bytes_of_item);
        }
        return most;
    }
    template <class Piece>
    std::uint64_t passes(const work& w, Piece piece) {
        return passes(
            w, [] {}, piece, [] {});
    }
    /// Return the items of `items` that a pass may do at most, by `job::part`; whole ones, at least 1. A part that
    /// another run did gives as many items again.
    [[nodiscard]] double wanted_share_of(std::uint64_t items) const;
    [[nodiscard]] std::uint64_t wanted_of(std::uint64_t items) const;

    /// Checks a sample of `results` by `is_right`, a function object for kernels that looks at array `of`.
    template <class T, class Check>
    void check(const parts<T>& of, std::uint64_t results, const Check& is_right) {
        corrupt_before_check(of);
        const std::uint64_t samples = std::min(job_.samples, results);
        launch(check_samples<Check>{is_right, counts(), results, samples, job_.seed},
               std::max<std::uint64_t>(samples, 1));
        found_.checked += ok() ? samples : 0;
    }
    /// Checks one number on the host.
    void check_number(std::uint64_t found, std::uint64_t right);

    /// Return the counts for kernels, and the sum that the application keeps there; `reset_total` sets it to 0.
    [[nodiscard]] tally* counts() const { return tally_.data(); }
    std::uint64_t total() { return read().total.template load<simt::order::relaxed>(); }
    void reset_total();

    /// Returns `count` elements of plain device memory, all zero bytes, which live as long as the run; null after an
    /// error.
    template <class T>
    T* beside(std::uint64_t count) {
        return keep_table<T>(count);
    }
    /// Set a word of such memory to 0, and return its value.
    void zero(counter* word);
    std::uint32_t value_of(const counter* word);

    /// Runs a kernel, and returns its microseconds; 0 after an error.
    template <class Kernel>
    double launch(const Kernel& kernel, std::uint64_t threads_of_launch) {
        if (!ok()) {
            return 0;
        }
        // Else the driver would load the kernel between the two events that measure its first launch.
        fail(to_status(simt::preload<Kernel>(on_)));
        if (!ok()) {
            return 0;
        }
        const auto done = simt::launch(on_, simt::grid_for(threads_of_launch, threads_per_block), kernel);
        fail(to_status(done));
        return done.microseconds;
    }

private:
    static constexpr std::uint32_t threads_per_block = 64;     ///< two warps, as in the recorded applications
    static constexpr std::uint64_t filling_threads = 1 << 18;  ///< more than a GPU runs at once

    [[nodiscard]] bool is_emulated() const { return on_.kind == simt::device_kind::emulated; }

    /// Returns an array without contents. A part that the heap did not give is an error of the run.
    template <class T>
    parts<T> allocate(std::uint64_t elements, std::uint64_t together) {
        const std::uint64_t whole = (elements + together - 1) / together;
        const std::uint64_t per_thread = (whole + threads() - 1) / threads() * together;
        auto* const table = keep_table<lane_array<T>>(threads());
        if (table == nullptr) {
            return {nullptr, per_thread, log_of_run()};
        }
        found_.allocate_us +=
            launch(allocate_parts<T>{heap_.ref(), table, counts(), threads(), per_thread, job_.how}, threads());
        found_.array_bytes += per_thread * threads() * sizeof(T);
        // Also after an error: some parts may have been given.
        frees_.push_back([this, table] {
            return to_status(simt::launch(on_, simt::grid_for(threads(), threads_per_block),
                                          free_parts<T>{heap_.ref(), table, threads()}));
        });
        look_for_nulls();
        return {table, per_thread, log_of_run(), sampler_of_run()};
    }
    /// Returns a table of zero bytes that the run owns; null after an error.
    template <class T>
    T* keep_table(std::uint64_t count) {
        if (!ok()) {
            return nullptr;
        }
        auto made = device_array<T>::create(on_, count);
        if (!made.ok()) {
            fail(made.status());
            return nullptr;
        }
        auto owned = std::make_shared<device_array<T>>(*std::move(made));
        tables_.push_back(owned);
        return owned->data();
    }
    template <class T>
    void corrupt_before_check(const parts<T>& of) {
        if (job_.corrupt && job_.corrupt->check == checks_) {
            launch(set_element<T>{of, job_.corrupt->element, job_.corrupt->value}, 1);
        }
        ++checks_;
    }
    [[nodiscard]] const applications::page_log* log_of_run() const { return log_ ? log_->device() : nullptr; }
    /// Returns what counts accesses where memory moves by them.
    [[nodiscard]] applications::access_sampler sampler_of_run() const {
        return job_.moves ? applications::access_sampler{heap_.view().samples, heap_.view().base}
                          : applications::access_sampler{};
    }
    /// Begins or ends the recording of the first pass, if there is a log.
    void record(bool is_active);
    tally read();
    void look_for_nulls();
    void look_at_results();
    absl::Status expect_empty();

    heap& heap_;
    const job& job_;
    simt::executor on_;
    device_array<tally> tally_;
    std::optional<trace_log> log_;  ///< if the job wants a trace
    std::vector<std::shared_ptr<void>> tables_;
    std::vector<std::function<absl::Status()>> frees_;  ///< of each array
    outcome found_;
    absl::Status status_;  ///< the first error after which the heap cannot be used
    double pass_us_ = 0;   ///< of the pass that runs
    int checks_ = 0;       ///< so far
};

}  // namespace orchard::apps
