// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The default heaps and the program's modules, in one object that is never destroyed: modules announce themselves
/// before main, and leave after it.

#include "runtime/default_heap/default_heap.hpp"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_format.h"
#include "host/heap_thread.hpp"
#include "runtime/default_heap/module_roots.hpp"

namespace orchard {
namespace {

/// The number that stands for the emulated device.
constexpr int no_gpu = -1;
/// GPUs whose launches are recognised as prepared without a lock. Others take the lock at each launch.
constexpr int max_gpus = 64;

/// Set while this thread makes a default heap: the library's own launches come to `before_launch`, too.
thread_local bool is_making = false;

// Held by all functions of `default_heaps`. Usable before and after the static objects of this file.
constinit std::mutex heaps_mutex;
/// Set in a process that was forked: the heaps are those of its parent.
constinit bool is_forked = false;

// The handlers of a fork; host/heap_thread.cpp describes the same for its list. A thread that makes a heap holds this
// mutex when it takes that list's, so that a fork takes this one first: its handler is registered later, and runs
// earlier.
void lock_heaps() { heaps_mutex.lock(); }
void unlock_heaps() { heaps_mutex.unlock(); }
void unlock_in_child() {
    is_forked = true;
    heaps_mutex.unlock();
}
[[maybe_unused]] const int fork_handlers =
    heap_thread::register_fork_handlers() + pthread_atfork(lock_heaps, unlock_heaps, unlock_in_child);

/// Returns whether the program makes its default heap itself. Errors: InvalidArgument for any other value than "auto"
/// and "manual".
absl::StatusOr<bool> is_manual() {
    const char* const text = ::secure_getenv("ORCHARD_INIT");
    const std::string_view value = text != nullptr ? text : "auto";
    if (value != "auto" && value != "manual") {
        return absl::InvalidArgumentError(absl::StrFormat(
            "ORCHARD_INIT: '%s' is no value; give auto (the first launch makes the default heap) or manual", text));
    }
    return value == "manual";
}

class default_heaps {
public:
    static default_heaps& get() {
        static auto* const all = new default_heaps;
        return *all;
    }

    void add(orchard_find_root find) {
        const std::lock_guard hold(heaps_mutex);
        modules_.push_back({find, {}});
        generation_.fetch_add(1, std::memory_order_release);
    }

    void remove(orchard_find_root find) {
        const std::lock_guard hold(heaps_mutex);
        std::erase_if(modules_, [&](const module& m) { return m.find == find; });
    }

    absl::StatusOr<heap*> existing() {
        const std::lock_guard hold(heaps_mutex);
        const auto found = heaps_.find(chosen_gpu());
        if (found != heaps_.end() && found->second.made) {
            return &*found->second.made;
        }
        if (found != heaps_.end() && !found->second.failure.ok()) {
            return found->second.failure;
        }
        const auto manual = is_manual();
        return absl::FailedPreconditionError(
            manual.ok() && *manual ? "there is no default heap on this GPU, since ORCHARD_INIT is manual; call "
                                     "orchard_init or orchard::default_heap"
                                   : "there is no default heap on this GPU yet; call orchard_init or "
                                     "orchard::default_heap, or launch a kernel of a program that is linked with "
                                     "orchard::replace_malloc");
    }

    /// Returns the heap of the current GPU; makes it with `values` if there is none. Without `values`, with those of
    /// the environment, and not if that failed before.
    absl::StatusOr<heap*> obtain(const options* values) {
        const std::lock_guard hold(heaps_mutex);
        return obtain_locked(values);
    }

    /// As `obtain` without values, also if that failed before.
    absl::StatusOr<heap*> retry() {
        const std::lock_guard hold(heaps_mutex);
        heaps_[chosen_gpu()].failure = absl::OkStatus();
        return obtain_locked(nullptr);
    }

    void before_launch(void* stream) {
        const int gpu = detail::current_gpu();
        if (gpu < 0 || is_making) {
            return;
        }
        const std::uint64_t now = generation_.load(std::memory_order_acquire);
        const bool has_place = gpu < max_gpus;
        if (has_place && prepared_[gpu].load(std::memory_order_acquire) == now) {
            return;
        }
        if (detail::is_captured(stream)) {
            return;
        }
        const std::lock_guard hold(heaps_mutex);
        const auto manual = is_manual();
        entry& mine = heaps_[chosen_gpu()];
        if (!manual.ok()) {
            mine.failure = manual.status();
        } else if (mine.made || (!*manual && !ended_)) {
            (void)obtain_locked(nullptr);  // an error is kept for `existing`
        }
        if (has_place) {
            prepared_[gpu].store(now, std::memory_order_release);
        }
    }

    absl::Status end() {
        const std::lock_guard hold(heaps_mutex);
        absl::Status status;
        if (is_forked) {
            return status;  // the heaps' memory and modules are the parent's
        }
        ended_ = true;
        for (auto& [gpu, mine] : heaps_) {
            status.Update(end_one(gpu, mine));
        }
        heaps_.clear();
        return status;
    }

    void before_reset() {
        const std::lock_guard hold(heaps_mutex);
        const int gpu = detail::current_gpu();
        const auto found = heaps_.find(gpu);
        if (found != heaps_.end()) {
            (void)end_one(gpu, found->second);  // the reset takes all away, whatever fails here
            heaps_.erase(found);
        }
        if (gpu >= 0 && gpu < max_gpus) {
            prepared_[gpu].store(0, std::memory_order_release);
        }
    }

private:
    struct module {
        orchard_find_root find;
        std::vector<int> bound;  ///< the GPUs on which it uses the default heap
    };
    struct entry {
        std::optional<heap> made;
        absl::Status failure;  ///< why there is none
    };

    default_heaps() = default;

    /// Ends the heap of a GPU, if there is one. Kernels that wait for memory get null from then on, and so do later
    /// ones.
    absl::Status end_one(int gpu, entry& mine) {
        absl::Status status;
        if (!mine.made) {
            return status;
        }
        status.Update(mine.made->close());
        for (module& m : modules_) {
            if (std::erase(m.bound, gpu) != 0) {
                status.Update(detail::bind_module(nullptr, m.find, gpu));
            }
        }
        mine.made.reset();
        return status;
    }

    /// Returns the current GPU; the number of the emulated device if the program has chosen that for its default heap.
    int chosen_gpu() const {
        const auto emulated = heaps_.find(no_gpu);
        return emulated != heaps_.end() && emulated->second.made ? no_gpu : detail::current_gpu();
    }

    absl::StatusOr<heap*> obtain_locked(const options* values) {
        is_making = true;
        const absl::Cleanup done = [] { is_making = false; };
        return obtain_or_fail(values);
    }

    absl::StatusOr<heap*> obtain_or_fail(const options* values) {
        const bool emulated = values != nullptr && values->device == device_option::emulated;
        const int gpu = emulated ? no_gpu : chosen_gpu();
        entry& mine = heaps_[gpu];
        if (mine.made && values != nullptr) {
            return absl::FailedPreconditionError(
                "the default heap of this GPU is there already, and keeps its options; call orchard_init with options "
                "before the first kernel is launched");
        }
        if (!mine.made && values == nullptr && !mine.failure.ok()) {
            return mine.failure;
        }
        if (!mine.made) {
            mine.failure = make(mine, values);
        }
        if (mine.made && gpu != no_gpu) {
            mine.failure = bind_modules(mine, gpu);
        }
        if (!mine.failure.ok()) {
            return mine.failure;
        }
        return &*mine.made;
    }

    /// Makes the heap. At the end of the process its threads end, as those of every heap do (heap_thread::stop_all),
    /// and the memory is left to the driver: a kernel may still use it.
    static absl::Status make(entry& mine, const options* values) {
        options chosen;
        if (values == nullptr) {
            auto from_environment = options::from_environment();
            if (!from_environment.ok()) {
                return from_environment.status();
            }
            chosen = *from_environment;
        } else {
            chosen = *values;
        }
        chosen.device = chosen.device == device_option::automatic ? device_option::cuda : chosen.device;
        auto made = heap::create(chosen);
        if (!made.ok()) {
            return made.status();
        }
        mine.made.emplace(*std::move(made));
        return absl::OkStatus();
    }

    /// Binds the modules that are not bound on this GPU yet. One that fails does not stop the others; its requests
    /// return null.
    absl::Status bind_modules(const entry& mine, int gpu) {
        absl::Status status;
        for (module& m : modules_) {
            if (std::ranges::find(m.bound, gpu) != m.bound.end()) {
                continue;
            }
            const absl::Status bound = detail::bind_module(&*mine.made, m.find, gpu);
            if (bound.ok()) {
                m.bound.push_back(gpu);
            }
            status.Update(bound);
        }
        return status;
    }

    std::map<int, entry> heaps_;                                 ///< by GPU
    std::vector<module> modules_;                                ///< in the order in which they announced themselves
    bool ended_ = false;                                         ///< `end` was called: launches make no heaps any more
    std::atomic<std::uint64_t> generation_{1};                   ///< raised with each module
    std::array<std::atomic<std::uint64_t>, max_gpus> prepared_;  ///< by GPU: the generation that is prepared
};

}  // namespace

absl::StatusOr<heap*> default_heap() { return default_heaps::get().obtain(nullptr); }
absl::StatusOr<heap*> retry_default_heap() { return default_heaps::get().retry(); }
absl::StatusOr<heap*> init_default_heap(const options& values) { return default_heaps::get().obtain(&values); }
absl::StatusOr<heap*> existing_default_heap() { return default_heaps::get().existing(); }
absl::Status end_default_heaps() { return default_heaps::get().end(); }

void detail::before_reset() noexcept { default_heaps::get().before_reset(); }
void detail::before_launch(void* stream) noexcept { default_heaps::get().before_launch(stream); }

}  // namespace orchard

void orchard_add_module(orchard_find_root find) noexcept { orchard::default_heaps::get().add(find); }
void orchard_remove_module(orchard_find_root find) noexcept { orchard::default_heaps::get().remove(find); }
