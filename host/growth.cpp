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
        const std::uint32_t committed = ready > first ? std::min(ready - first, line.range.count) : 0;
        line.committed.store<simt::order::relaxed>(committed);
        line.wanted.store<simt::order::relaxed>(committed);
    }
}

void growth::want(std::size_t shard, std::uint32_t segments) {
    growth_line& line = lines_[shard];
    segments = std::min(segments, line.range.count);
    if (segments <= line.wanted.load<simt::order::relaxed>() && line.failed.load<simt::order::relaxed>() == 0) {
        return;
    }
    line.failed.store<simt::order::relaxed>(0);
    line.wanted.store<simt::order::release>(std::max(segments, line.wanted.load<simt::order::relaxed>()));
    signal_.fetch_add<simt::order::release>(1);  // pairs with the acquire in run()
    signal_.notify_all();
}

bool growth::step() {
    bool did = false;
    for (growth_line& line : lines_) {
        const std::uint32_t have = line.committed.load<simt::order::relaxed>();
        if (have >= line.wanted.load<simt::order::acquire>() || line.failed.load<simt::order::relaxed>() != 0) {
            continue;
        }
        const std::uint32_t n = std::min(extent_, line.range.count - have);
        const absl::Status status = memory_.commit({line.range.first + have, n});
        did = true;
        if (status.ok()) {
            line.committed.store<simt::order::release>(have + n);  // pairs with the service's acquire
        } else {
            {
                const std::scoped_lock lock(error_mutex_);
                error_ = status;
            }
            line.failed.store<simt::order::release>(1);
        }
    }
    return did;
}

void growth::start() {
    thread_ = std::thread([this] { run(); });
}

void growth::run() {
    for (;;) {
        // Before all that it may have been raised for, so that nothing is slept through.
        const std::uint32_t seen = signal_.load<simt::order::acquire>();
        if (stopping_.load<simt::order::acquire>() != 0) {
            return;
        }
        if (!step()) {
            signal_.wait(seen);
        }
    }
}

void growth::stop() {
    if (thread_.joinable()) {
        stopping_.store<simt::order::release>(1);
        signal_.fetch_add<simt::order::release>(1);
        signal_.notify_all();
        thread_.join();
    }
}

absl::Status growth::last_error() const {
    const std::scoped_lock lock(error_mutex_);
    return error_;
}

}  // namespace orchard
