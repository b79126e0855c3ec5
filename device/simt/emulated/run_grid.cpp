// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `run_grid`, and the host threads that it uses.
///
///     run_grid, on the calling thread
///       complaint_about            arguments out of range: an error, nothing runs
///       helpers().take             n - 1 parked host threads; new ones if too few are parked
///       helper::start              each of them calls `work_off`
///       work_off                   the calling thread works, too
///         runners().take           a block runner with its stacks
///         block_runner::work_off   takes blocks until none is left or one has failed
///       helper::finish             waits for each helper
///       launch_state::result       the first error, and the costs of all workers
///
/// Blocks are not assigned to workers beforehand: each worker takes the next block when it has finished one. Blocks run
/// in no fixed order and, with several workers, at the same time. A kernel whose blocks wait for later blocks may
/// therefore never end, as on a GPU that cannot hold all blocks at once.

#include <absl/strings/str_format.h>

#include <algorithm>
#include <condition_variable>
#include <fstream>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "device/simt/emulated/block_runner.hpp"
#include "device/simt/emulated/recorder.hpp"
#include "device/simt/emulated/stack_switch.hpp"
#include "device/simt/launch.cuh"

namespace orchard::simt::emulated {

namespace {

constexpr unsigned max_workers = 1024;
// The most runners kept between launches; each holds the stacks of the largest block that it ran.
constexpr std::size_t kept_runners = 32;

/// Idle block runners. Launches reuse them, because mapping stacks is expensive.
class runner_cache {
public:
    /// Returns an idle runner, or a new one if there is none.
    std::unique_ptr<block_runner> take() {
        {
            const std::lock_guard lock(mutex_);
            if (!idle_.empty()) {
                auto runner = std::move(idle_.back());
                idle_.pop_back();
                return runner;
            }
        }
        return std::make_unique<block_runner>();
    }
    /// Keeps the runner, or destroys it if `kept_runners` are idle. The last one given back is taken next.
    void give_back(std::unique_ptr<block_runner> runner) {
        const std::lock_guard lock(mutex_);
        if (idle_.size() < kept_runners) {
            idle_.push_back(std::move(runner));
        }
    }

private:
    std::mutex mutex_;
    std::vector<std::unique_ptr<block_runner>> idle_;
};

/// The cache is never destroyed, nor are the parked threads, so that a launch from a static destructor still works.
runner_cache& runners() {
    static auto* const cache = new runner_cache;
    return *cache;
}

/// Runs blocks of the launch on this thread. It is `noexcept` because an exception on a helper would end the process.
/// If memory is lacking, this worker takes no part, and others run its blocks.
void work_off(launch_state& launch) noexcept {
    try {
        auto runner = runners().take();
        runner->work_off(launch);
        runners().give_back(std::move(runner));
    } catch (const std::bad_alloc& error) {
        launch.note_absence(error.what());
    }
}

/// A host thread that is parked between launches. It belongs to one launch at a time, whose thread calls `start` and
/// then `finish`.
///
///     parked --start--> asked --the thread--> working --the thread--> parked
///                         +------finish, if the thread has not begun-----^
///
/// The thread is detached and its object is never destroyed: no moment is safe to join it at the end of a process.
class helper {
public:
    /// @throws std::system_error if the thread cannot be started
    helper() {
        std::thread([this] { loop(); }).detach();
    }

    /// Asks the thread to work on a launch, which must live until `finish` returns. Precondition: the helper is parked.
    void start(launch_state& launch) {
        const std::lock_guard lock(mutex_);
        launch_ = &launch;
        state_ = state::asked;
        changed_.notify_all();
    }
    /// Waits until the helper is done. If the helper has not begun yet, it is no longer needed: the caller has finished
    /// its own work, so that usually no block is left. A short launch thus does not wait for a thread to wake.
    void finish() {
        std::unique_lock lock(mutex_);
        if (state_ == state::asked) {
            state_ = state::parked;
        }
        changed_.wait(lock, [&] { return state_ == state::parked; });
    }

private:
    enum class state { parked, asked, working };

    void loop() {
        std::unique_lock lock(mutex_);
        for (;;) {
            changed_.wait(lock, [&] { return state_ == state::asked; });
            state_ = state::working;
            lock.unlock();  // `work_off` may take long, and `finish` must be able to begin to wait
            work_off(*launch_);
            lock.lock();
            state_ = state::parked;
            changed_.notify_all();
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    state state_ = state::parked;
    launch_state* launch_ = nullptr;
};

/// The parked helpers: as many as concurrent launches have ever needed.
class helper_cache {
public:
    /// Returns `count` helpers, for this caller alone until `give_back`. New threads are started under the lock; they
    /// stay in the cache if a later one fails.
    /// @throws std::system_error if a thread cannot be started
    std::vector<helper*> take(std::size_t count) {
        std::vector<helper*> taken;
        taken.reserve(count);
        const std::lock_guard lock(mutex_);
        while (idle_.size() < count) {
            idle_.push_back(new helper);
        }
        for (; taken.size() < count; idle_.pop_back()) {
            taken.push_back(idle_.back());
        }
        return taken;
    }
    void give_back(const std::vector<helper*>& helpers) {
        const std::lock_guard lock(mutex_);
        idle_.insert(idle_.end(), helpers.begin(), helpers.end());
    }

private:
    std::mutex mutex_;
    std::vector<helper*> idle_;
};

/// Never destroyed; see `runners`.
helper_cache& helpers() {
    static auto* const cache = new helper_cache;
    return *cache;
}

/// Returns the number of stacks that the lanes of a launch may have together. Each takes two mappings, of which a
/// process has 65,530 on most machines; half of them are left to the rest of the process. The thread sanitizer knows up
/// to 8,128 threads, and counts each stack as one.
std::uint32_t max_stacks() {
    static const std::uint32_t most = [] {
        constexpr std::uint32_t usual = 65'530;
        std::uint32_t mappings = 0;
        const bool is_known = static_cast<bool>(std::ifstream("/proc/sys/vm/max_map_count") >> mappings);
        // Two mappings for each stack, half of all mappings: a quarter.
        return ORCHARD_FIBERS_TSAN != 0 ? 4'096 : (is_known ? mappings : usual) / 4;
    }();
    return most;
}

/// Returns what is wrong with a launch's arguments; empty if they are valid.
std::string complaint_about(grid shape, unsigned workers) {
    // The launching thread works on the launch itself, which would run lanes on a lane's stack.
    if (current_lane != nullptr) {
        return "a kernel cannot launch a kernel: launch from a host thread";
    }
    if (shape.blocks == 0) {
        return "a grid of 0 blocks: launch at least 1";
    }
    if (shape.threads_per_block == 0 || shape.threads_per_block > max_threads_per_block) {
        return absl::StrFormat("blocks of %d threads: a block has 1 to %d", shape.threads_per_block,
                               max_threads_per_block);
    }
    if (workers > max_workers) {
        return absl::StrFormat("%d workers: at most %d, or 0 for as many as the machine has", workers, max_workers);
    }
    return {};
}

}  // namespace

launch_result run_grid(grid shape, kernel_body body, const void* kernel, unsigned workers, access_recorder* recorder) {
    std::string complaint = complaint_about(shape, workers);
    if (!complaint.empty()) {
        return {false, std::move(complaint), {}};
    }
    // `hardware_concurrency` may be 0 if the number is unknown.
    static const unsigned processors = std::clamp(std::thread::hardware_concurrency(), 1u, max_workers);
    // The number of workers whose stacks fit; each has one block's.
    const std::uint32_t with_stacks = std::max(max_stacks() / shape.threads_per_block, 1u);
    const std::uint32_t wanted =
        std::min({workers == 0 ? processors : workers, std::uint32_t{shape.blocks}, with_stacks});
    try {
        // Before any worker runs: it changes the recorder's table.
        if (recorder != nullptr) {
            recorder->begin_launch(std::uint64_t{shape.blocks} *
                                   ((shape.threads_per_block + warp_size - 1) / warp_size));
        }
        // The calling thread works as well, so that a grid of one block needs no other thread.
        const std::vector<helper*> hired = helpers().take(wanted - 1);
        launch_state launch(shape, body, kernel, recorder);
        for (helper* h : hired) {
            h->start(launch);
        }
        work_off(launch);
        for (helper* h : hired) {
            h->finish();  // from here on, the helper does not use `launch`, which ends with this block
        }
        helpers().give_back(hired);
        if (recorder != nullptr) {
            recorder->end_launch();
        }
        return launch.result();
    } catch (const std::system_error& error) {
        return {false, absl::StrFormat("cannot start %d host threads: %s", wanted, error.what()), {}};
    } catch (const std::bad_alloc&) {
        return {false, absl::StrFormat("no memory to launch a grid of %d blocks", shape.blocks), {}};
    }
}

}  // namespace orchard::simt::emulated
