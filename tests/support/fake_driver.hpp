// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A memory driver whose calls are recorded and can be made to fail, to be slow, or to wait while others continue.
/// Calls that do not fail are passed to another driver: the emulated one, or CUDA's.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <ostream>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "uvm/memory/mapped_pieces.hpp"
#include "uvm/memory/memory_driver.hpp"

namespace orchard::rig {

enum class driver_call {
    device_memory,
    reserve,
    unreserve,
    create,
    destroy,
    map,
    set_access,
    unmap,
    allocate,
    allocate_host_visible,
    stream,
    read,
    write,
    begin_copies,
    finish_copies,
    finish_stream,
    prepare,  ///< of a piece for `allocate` or `allocate_host_visible`: clears it; see `driver_script::maps_pieces`
};

inline const char* name_of(driver_call call) {
    constexpr std::array names{"device_memory", "reserve",    "unreserve", "create",       "destroy",
                               "map",           "set_access", "unmap",     "allocate",     "allocate_host_visible",
                               "stream",        "read",       "write",     "begin_copies", "finish_copies",
                               "finish_stream", "prepare"};
    return names[static_cast<std::size_t>(call)];
}
inline std::ostream& operator<<(std::ostream& out, driver_call call) { return out << name_of(call); }

/// The beginning of one call. `at` is null and `tier` is device if a call has no such argument.
struct driver_record {
    driver_call call;
    const void* at = nullptr;
    std::size_t bytes = 0;
    memory_tier tier = memory_tier::device;
};

/// The resources that the driver has provided and that were not released.
struct driver_live {
    int reservations = 0;
    int handles = 0;
    int mappings = 0;
    std::uint64_t device_bytes = 0;
    std::uint64_t host_bytes = 0;
    friend bool operator==(const driver_live&, const driver_live&) = default;
};

/// A test's control of the driver and its records; it outlives the driver. Any thread.
class driver_script {
public:
    /// The n-th next call of this kind (1: the next) does nothing and returns `status`.
    void fail(driver_call call, absl::Status status, int nth = 1) { plan(call, nth, std::move(status), false); }
    /// The n-th next call of this kind waits, before it does anything, until `let_go`. Returns what `let_go` takes.
    std::size_t hold(driver_call call, int nth = 1) { return plan(call, nth, absl::OkStatus(), true); }
    void let_go(std::size_t held) {
        const std::scoped_lock lock(mutex_);
        plans_[held].held = false;
        changed_.notify_all();
    }
    /// Waits until that call is there and waits.
    void wait_until_reached(std::size_t held) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return plans_[held].nth == 0; });
    }
    /// A tier has no more than this to create from.
    void limit(memory_tier tier, std::uint64_t bytes) {
        const std::scoped_lock lock(mutex_);
        limits_[index(tier)] = bytes;
    }
    /// From now on every call takes at least this long.
    void delay(std::chrono::microseconds each) {
        const std::scoped_lock lock(mutex_);
        delay_ = each;
    }
    /// True if there is a host tier. For the thread that uses the driver.
    bool host_tier = true;
    /// True if allocations come from pieces that the driver maps by its own calls, as on CUDA. Set it before the driver
    /// is used.
    bool maps_pieces = false;
    /// True if the driver reports a running call that accesses its memory.
    std::atomic<bool> busy{false};

    [[nodiscard]] std::vector<driver_record> calls() const {
        const std::scoped_lock lock(mutex_);
        return calls_;
    }
    [[nodiscard]] std::size_t count(driver_call call) const {
        const auto all = calls();
        return static_cast<std::size_t>(
            std::count_if(all.begin(), all.end(), [&](const driver_record& r) { return r.call == call; }));
    }
    /// Returns the number of calls so far, the start for `kinds_since`.
    [[nodiscard]] std::size_t mark() const {
        const std::scoped_lock lock(mutex_);
        return calls_.size();
    }
    /// The kinds of the calls that began after a mark.
    [[nodiscard]] std::set<driver_call> kinds_since(std::size_t mark) const {
        const std::scoped_lock lock(mutex_);
        std::set<driver_call> kinds;
        for (std::size_t i = mark; i < calls_.size(); ++i) {
            kinds.insert(calls_[i].call);
        }
        return kinds;
    }
    [[nodiscard]] driver_live live() const {
        const std::scoped_lock lock(mutex_);
        return live_;
    }

private:
    friend class fake_driver;

    struct planned {
        driver_call call;
        int nth;  // calls until it happens; 0: it has
        absl::Status status;
        bool held;
    };
    static std::size_t index(memory_tier tier) { return static_cast<std::size_t>(tier); }

    std::size_t plan(driver_call call, int nth, absl::Status status, bool held) {
        const std::scoped_lock lock(mutex_);
        plans_.push_back({call, nth, std::move(status), held});
        return plans_.size() - 1;
    }

    /// The beginning of every call: records the call, waits, and returns the error if it must fail.
    absl::Status begin(const driver_record& record) {
        std::unique_lock lock(mutex_);
        calls_.push_back(record);
        absl::Status result;
        std::vector<std::size_t> mine;
        for (std::size_t i = 0; i < plans_.size(); ++i) {
            if (plans_[i].call == record.call && plans_[i].nth > 0 && --plans_[i].nth == 0) {
                result.Update(plans_[i].status);
                mine.push_back(i);
            }
        }
        changed_.notify_all();
        for (const std::size_t i : mine) {
            changed_.wait(lock, [&] { return !plans_[i].held; });
        }
        const auto lasts = delay_;
        lock.unlock();
        std::this_thread::sleep_for(lasts);
        return result;
    }

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<planned> plans_;
    std::vector<driver_record> calls_;
    std::array<std::uint64_t, 2> limits_{~std::uint64_t{0}, ~std::uint64_t{0}};
    std::chrono::microseconds delay_{0};
    driver_live live_;
    std::map<memory_handle, memory_tier> tiers_;
};

class fake_driver final : public memory_driver {
public:
    explicit fake_driver(std::shared_ptr<driver_script> script,
                         std::unique_ptr<memory_driver> real = make_emulated_driver())
        : script_{std::move(script)}, real_{std::move(real)} {}
    ~fake_driver() override { pieces_.release(); }

    [[nodiscard]] std::size_t granularity() const override { return real_->granularity(); }
    [[nodiscard]] bool has_host_tier() const override { return script_->host_tier; }
    [[nodiscard]] bool is_idle() const override { return !script_->busy.load(); }
    absl::StatusOr<amounts> device_memory() override {
        if (auto s = script_->begin({driver_call::device_memory}); !s.ok()) {
            return s;
        }
        const std::scoped_lock lock(script_->mutex_);
        const std::uint64_t limit = script_->limits_[0];
        return limit == ~std::uint64_t{0} ? real_->device_memory()
                                          : amounts{limit - script_->live_.device_bytes, limit};
    }

    absl::StatusOr<char*> reserve(std::size_t bytes, std::size_t alignment) override {
        if (auto s = script_->begin({driver_call::reserve, nullptr, bytes}); !s.ok()) {
            return s;
        }
        return counted(real_->reserve(bytes, alignment), [](driver_live& live) { ++live.reservations; });
    }
    void unreserve(char* at, std::size_t bytes) override {
        (void)script_->begin({driver_call::unreserve, at, bytes});
        real_->unreserve(at, bytes);
        change([](driver_live& live) { --live.reservations; });
    }
    absl::StatusOr<memory_handle> create(std::size_t bytes, memory_tier tier) override {
        if (auto s = script_->begin({driver_call::create, nullptr, bytes, tier}); !s.ok()) {
            return s;
        }
        const std::scoped_lock lock(script_->mutex_);
        std::uint64_t& used = used_of(tier);
        if (used + bytes > script_->limits_[driver_script::index(tier)]) {
            return absl::ResourceExhaustedError(absl::StrFormat("the fake driver has no %d bytes", bytes));
        }
        auto memory = real_->create(bytes, tier);
        if (memory.ok()) {
            used += bytes;
            ++script_->live_.handles;
            script_->tiers_[*memory] = tier;
        }
        return memory;
    }
    void destroy(memory_handle memory, std::size_t bytes) override {
        (void)script_->begin({driver_call::destroy, nullptr, bytes});
        real_->destroy(memory, bytes);
        const std::scoped_lock lock(script_->mutex_);
        --script_->live_.handles;
        used_of(script_->tiers_[memory]) -= bytes;
    }
    absl::Status map(char* at, std::size_t bytes, memory_handle memory) override {
        absl::Status status = script_->begin({driver_call::map, at, bytes});
        return status.ok() ? counted(real_->map(at, bytes, memory), [](driver_live& live) { ++live.mappings; })
                           : status;
    }
    absl::Status set_access(char* at, std::size_t bytes) override {
        absl::Status status = script_->begin({driver_call::set_access, at, bytes});
        return status.ok() ? real_->set_access(at, bytes) : status;
    }
    absl::Status unmap(char* at, std::size_t bytes) override {
        absl::Status status = script_->begin({driver_call::unmap, at, bytes});
        return status.ok() ? counted(real_->unmap(at, bytes), [](driver_live& live) { --live.mappings; }) : status;
    }
    absl::StatusOr<void*> allocate(std::size_t bytes) override {
        if (auto s = script_->begin({driver_call::allocate, nullptr, bytes}); !s.ok()) {
            return s;
        }
        return script_->maps_pieces ? pieces_.take(memory_tier::device, bytes) : real_->allocate(bytes);
    }
    absl::StatusOr<void*> allocate_host_visible(std::size_t bytes) override {
        if (auto s = script_->begin({driver_call::allocate_host_visible, nullptr, bytes}); !s.ok()) {
            return s;
        }
        return script_->maps_pieces ? pieces_.take(memory_tier::host, bytes) : real_->allocate_host_visible(bytes);
    }
    [[nodiscard]] void* stream() const override {
        (void)script_->begin({driver_call::stream});
        return real_->stream();
    }
    absl::Status read(void* to, const void* from, std::size_t bytes) override {
        absl::Status status = script_->begin({driver_call::read, from, bytes});
        return status.ok() ? real_->read(to, from, bytes) : status;
    }
    absl::Status write(void* to, const void* from, std::size_t bytes) override {
        absl::Status status = script_->begin({driver_call::write, to, bytes});
        return status.ok() ? real_->write(to, from, bytes) : status;
    }
    absl::Status begin_copies(int queue, std::vector<memory_copy> copies) override {
        std::size_t bytes = 0;
        for (const memory_copy& c : copies) {
            bytes += c.bytes;
        }
        absl::Status status = script_->begin({driver_call::begin_copies, nullptr, bytes});
        return status.ok() ? real_->begin_copies(queue, std::move(copies)) : status;
    }
    absl::Status finish_copies(int queue) override {
        absl::Status status = script_->begin({driver_call::finish_copies});
        return status.ok() ? real_->finish_copies(queue) : status;
    }
    absl::Status finish_stream(void* stream) override {
        absl::Status status = script_->begin({driver_call::finish_stream});
        return status.ok() ? real_->finish_stream(stream) : status;
    }

private:
    template <class F>
    void change(F&& f) {
        const std::scoped_lock lock(script_->mutex_);
        f(script_->live_);
    }
    template <class Result, class F>
    Result counted(Result result, F&& f) {
        if (result.ok()) {
            change(f);
        }
        return result;
    }
    absl::Status prepare(char* at, std::size_t bytes) {
        absl::Status status = script_->begin({driver_call::prepare, at, bytes});
        if (status.ok()) {
            std::memset(at, 0, bytes);
        }
        return status;
    }
    std::uint64_t& used_of(memory_tier tier) {
        return tier == memory_tier::device ? script_->live_.device_bytes : script_->live_.host_bytes;
    }

    std::shared_ptr<driver_script> script_;
    std::unique_ptr<memory_driver> real_;
    detail::mapped_pieces pieces_{*this,
                                  [this](char* at, std::size_t bytes, memory_tier) { return prepare(at, bytes); }};
};

}  // namespace orchard::rig
