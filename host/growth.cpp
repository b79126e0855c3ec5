// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "host/growth.hpp"

#include <algorithm>

namespace orchard {

growth::growth(backing& memory, std::vector<segment_run> ranges, std::uint32_t extent)
    : memory_{memory}, extent_{extent}, lines_(ranges.size()) {
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        growth_line& line = lines_[i];
        line.range = ranges[i];
        const std::uint32_t first = to_underlying(line.range.first);
        const std::uint32_t ready = memory.committed_at_start();
        line.committed = ready > first ? std::min(ready - first, line.range.count) : 0;
        line.wanted = line.committed.load();
    }
}

void growth::want(std::size_t shard, std::uint32_t segments) {
    growth_line& line = lines_[shard];
    segments = std::min(segments, line.range.count);
    if (segments <= line.wanted.load(std::memory_order_relaxed) && !line.failed.load(std::memory_order_relaxed)) {
        return;
    }
    line.failed.store(false, std::memory_order_relaxed);
    line.wanted.store(std::max(segments, line.wanted.load(std::memory_order_relaxed)), std::memory_order_release);
    signal_.fetch_add(1, std::memory_order_release);  // pairs with the acquire in run()
    signal_.notify_one();
}

bool growth::step() {
    bool did = false;
    for (growth_line& line : lines_) {
        const std::uint32_t have = line.committed.load(std::memory_order_relaxed);
        if (have >= line.wanted.load(std::memory_order_acquire) || line.failed.load(std::memory_order_relaxed)) {
            continue;
        }
        const std::uint32_t n = std::min(extent_, line.range.count - have);
        const absl::Status status = memory_.commit({line.range.first + have, n});
        did = true;
        if (status.ok()) {
            line.committed.store(have + n, std::memory_order_release);  // pairs with the service's acquire
        } else {
            {
                const std::scoped_lock lock(error_mutex_);
                error_ = status;
            }
            line.failed.store(true, std::memory_order_release);
        }
    }
    return did;
}

void growth::start() {
    thread_ = std::thread([this] { run(); });
}

void growth::run() {
    while (!stopping_.load(std::memory_order_acquire)) {
        const std::uint32_t seen = signal_.load(std::memory_order_acquire);
        if (!step()) {
            signal_.wait(seen, std::memory_order_acquire);
        }
    }
}

void growth::stop() {
    if (thread_.joinable()) {
        stopping_.store(true, std::memory_order_release);
        signal_.fetch_add(1, std::memory_order_release);
        signal_.notify_one();
        thread_.join();
    }
}

absl::Status growth::last_error() const {
    const std::scoped_lock lock(error_mutex_);
    return error_;
}

}  // namespace orchard
