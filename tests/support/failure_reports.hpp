// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Collects a heap's reports of failed requests, for tests that wait for them.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/heap/failure.hpp"

namespace orchard::test {

class failure_reports {
public:
    /// Returns the function for `heap::on_failure`. It may be called after this object has been destroyed.
    [[nodiscard]] std::function<void(const failure&)> taker() const {
        return [kept = kept_](const failure& f) {
            const std::scoped_lock lock(kept->mutex);
            kept->all.push_back(f);
            kept->came.notify_all();
        };
    }
    /// Waits until there are `n` reports, and returns all reports; returns fewer after a time limit.
    [[nodiscard]] std::vector<failure> wait_for(std::size_t n) const {
        std::unique_lock lock(kept_->mutex);
        kept_->came.wait_for(lock, std::chrono::seconds(60), [&] { return kept_->all.size() >= n; });
        return kept_->all;
    }

private:
    struct list {
        std::mutex mutex;
        std::condition_variable came;
        std::vector<failure> all;
    };
    std::shared_ptr<list> kept_ = std::make_shared<list>();
};

}  // namespace orchard::test
