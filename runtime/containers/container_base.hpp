// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What the owners of containers have in common: the container's words in device memory, and a view for kernels.

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/simt/launch.cuh"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/heap.hpp"
#include "runtime/heap/launch_status.hpp"

namespace orchard::detail {

/// Empties a container.
template <class Ref>
struct clear_container {
    Ref container;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.global_thread() == 0) {
            container.clear();
        }
    }
};

/// Owns the words of a container, of type `State`, and frees the container's memory at the end. Move-only; one thread
/// of the host at a time. The heap must outlive it. The kernels of a heap on a GPU are launched here, so that the
/// source that uses it is one for nvcc then.
template <class State, class Ref>
class container_base {
public:
    container_base(container_base&& other) noexcept { swap(other); }
    container_base& operator=(container_base&& other) noexcept {
        swap(other);
        return *this;
    }
    /// Frees all memory. No kernel may use the container any more.
    ~container_base() { release(); }

    /// Returns the view for kernels, valid while this object, or the object that it was moved to, lives.
    [[nodiscard]] Ref ref() const { return ref_; }

    /// Frees all memory in the heap, and empties the container. No kernel may use it meanwhile. Errors: those of a
    /// launch. Cost: a kernel.
    absl::Status clear() {
        const simt::launch_result done = simt::launch(on_, {1, 32}, clear_container<Ref>{ref_});
        return done.ok ? absl::OkStatus() : to_status(done);
    }

protected:
    container_base() = default;

    /// Allocates the words, all zero. Errors: those of `device_array`.
    absl::Status allocate_words(const orchard::heap& heap) {
        auto made = device_array<State>::create(heap.executor(), 1);
        if (!made.ok()) {
            return made.status();
        }
        words_ = *std::move(made);
        on_ = heap.executor();
        return absl::OkStatus();
    }
    /// Returns a copy of the words. Errors: those of the copy. Cost: waits for the executor's stream.
    [[nodiscard]] absl::StatusOr<State> words() const {
        std::vector<State> copy(1);
        absl::Status s = words_.download(copy);
        return s.ok() ? absl::StatusOr<State>(copy.front()) : s;
    }

    /// Frees all memory, and the words. What they are needed for is still there: a derived class with more calls it
    /// first.
    void release() {
        if (words_.data() != nullptr) {
            (void)clear();
            words_ = device_array<State>();
        }
    }

    void swap(container_base& other) noexcept {
        std::swap(ref_, other.ref_);
        std::swap(words_, other.words_);
        std::swap(on_, other.on_);
    }

    Ref ref_;
    device_array<State> words_;
    simt::executor on_{};
};

}  // namespace orchard::detail
