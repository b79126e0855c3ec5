// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The code that all applications share: a heap on the emulated device, arrays in parts, recorded launches, and their
/// trace. An application describes arrays, kernels and expected results; errors of any step end up in the session, so
/// that applications need no checks of their own.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/simt/emulated/recorder.hpp"
#include "profiling/uvm/applications/application.hpp"
#include "profiling/uvm/applications/parts.cuh"
#include "profiling/uvm/applications/regions.hpp"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/heap.hpp"

namespace orchard::applications {

/// An array in parts, and the memory that names its parts; `view` is for kernels.
template <class T>
struct dealt_array {
    device_array<lane_array<T>> of_thread;
    std::uint64_t per_thread = 0;

    [[nodiscard]] parts<T> view() const { return {of_thread.data(), per_thread}; }
};

/// One run of an application. The first error is kept, and later calls do nothing. One thread.
class session {
public:
    /// Creates a session. `bytes`: total size of all arrays. Errors: InvalidArgument; those of `heap::create`.
    static absl::StatusOr<std::unique_ptr<session>> create(const parameters& p, std::uint64_t bytes);

    /// Return the number of threads, and the first error.
    [[nodiscard]] std::uint64_t threads() const { return parameters_.threads; }
    [[nodiscard]] const absl::Status& status() const { return status_; }
    /// Keeps an error, if it is the first.
    void fail(absl::Status why) { status_.Update(std::move(why)); }

    /// Returns an array of at least `elements` elements. Each thread allocates an equal part, rounded up to a multiple
    /// of `together`, so that no aligned run of `together` elements lies in two parts. `initial(i)` is the initial
    /// value of element i, for all elements that exist.
    template <class T, class Initial>
    dealt_array<T> array(std::uint64_t elements, std::uint64_t together, Initial initial) {
        dealt_array<T> made = allocate<T>(elements, together);
        for (std::uint64_t i = 0; status_.ok() && i < made.per_thread * threads(); ++i) {
            put(made.view()[i], initial(i));
        }
        return made;
    }
    /// Returns the elements of an array, as numbers.
    template <class T>
    std::vector<std::int64_t> contents(const dealt_array<T>& of, std::uint64_t elements) const {
        std::vector<std::int64_t> found(status_.ok() ? elements : 0);
        for (std::uint64_t i = 0; i < found.size(); ++i) {
            found[i] = take(of.view()[i]);
        }
        return found;
    }

    /// Runs `kernel` with recording, with as many threads as the session has. If their number is a multiple of 64, the
    /// kernel need not check that a thread is one of them. Only these launches are recorded, not those that allocate.
    template <class Kernel>
    void launch(const Kernel& kernel) {
        run(kernel, &recorder_);
    }

    /// Records an error if `found` differs from `right`. `what`: for the text.
    void expect(const char* what, const std::vector<std::int64_t>& found, const std::vector<std::int64_t>& right);

    /// Returns the recorded trace, or the first error.
    absl::StatusOr<uvm_model::trace> trace();

private:
    session(const parameters& p, heap h);

    /// Returns an array whose parts were allocated by a launch, without contents. Its regions are recorded for `trace`.
    template <class T>
    dealt_array<T> allocate(std::uint64_t elements, std::uint64_t together) {
        dealt_array<T> made;
        const std::uint64_t whole = (elements + together - 1) / together;
        made.per_thread = (whole + threads() - 1) / threads() * together;
        if (status_.ok()) {
            auto table = device_array<lane_array<T>>::create(heap_.executor(), threads());
            fail(table.status());
            if (table.ok()) {
                made.of_thread = *std::move(table);
                run(allocate_parts<T>{heap_.ref(), made.of_thread.data(), threads(), made.per_thread, parameters_.how},
                    nullptr);
            }
        }
        if (status_.ok()) {
            fail(regions_.add(std::span(made.of_thread.data(), threads())));
        }
        return made;
    }
    /// Launches with or without a recorder. A null from the heap is an error here, even if the kernel could go on.
    template <class Kernel>
    void run(const Kernel& kernel, simt::emulated::access_recorder* recorder) {
        if (!status_.ok()) {
            return;
        }
        simt::executor on = heap_.executor();
        on.recorder = recorder;
        const simt::launch_result done = simt::launch(on, simt::grid_for(threads(), threads_per_block), kernel);
        fail(to_status(done));
        fail(failure_of_heap());
    }
    /// Returns the first failed request of the heap as an error.
    absl::Status failure_of_heap();

    static constexpr std::uint32_t threads_per_block = 64;  ///< two warps

    /// Write and read an element as a number, whatever its type. The host may do so, because the emulated device's
    /// memory is its own.
    template <class T>
    static void put(simt::plain<T>& element, std::int64_t value) {
        element.set(static_cast<T>(value));
    }
    static void put(counter& element, std::int64_t value) {
        element.store<simt::order::relaxed>(static_cast<std::uint32_t>(value));  // before the launch
    }
    template <class T>
    static std::int64_t take(const simt::plain<T>& element) {
        return element.get();
    }
    static std::int64_t take(const counter& element) { return element.load<simt::order::relaxed>(); }  // after it

    parameters parameters_;  ///< of the application, as given
    heap heap_;
    simt::emulated::access_recorder recorder_;  ///< of the whole range of the heap
    regions regions_;                           ///< of all arrays
    absl::Status status_;                       ///< the first error
};

/// Calls `body(session)` in a session with room for `bytes`: it fills, launches and compares. Returns the trace, or the
/// first error.
template <class Body>
absl::StatusOr<uvm_model::trace> run_session(const parameters& p, std::uint64_t bytes, Body body) {
    absl::StatusOr<std::unique_ptr<session>> s = session::create(p, bytes);
    if (!s.ok()) {
        return s.status();
    }
    body(**s);
    return (*s)->trace();
}

}  // namespace orchard::applications
