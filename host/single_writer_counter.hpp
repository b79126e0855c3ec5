// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Numbers that one thread of a heap writes and any thread reads: counters, and histograms of powers of two.

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

namespace orchard {

/// A number with one writer thread, which other threads may read at any time. Relaxed, and without a read-modify-write:
/// with one writer, a load and a store lose no update, and cost far less than a locked instruction in the request path.
/// A reader gets some recent value; values of several counters need not be of the same moment.
/// `service_thread::publish` and `service_thread::run` order them for readers that need that.
class single_writer_counter {
public:
    /// Writer: add to the value, raise it to a maximum, set it.
    void add(std::uint64_t n) { value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
    void raise_to(std::uint64_t n) {
        if (n > value_.load(std::memory_order_relaxed)) {
            value_.store(n, std::memory_order_relaxed);
        }
    }
    void set(std::uint64_t n) { value_.store(n, std::memory_order_relaxed); }
    /// Any thread: returns the value.
    [[nodiscard]] std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

private:
    std::atomic<std::uint64_t> value_{0};
};

/// A histogram with one writer thread, as `single_writer_counter`. Each bucket but the first and the last is as wide as
/// all buckets below it:
///
///     bucket    0    1    2       3         4          ...    39
///     values    0    1    2, 3    4 to 7    8 to 15    ...    2^38 and more
class power_histogram {
public:
    static constexpr std::uint32_t buckets = 40;

    /// Returns the bucket of a value.
    static constexpr std::uint32_t bucket_of(std::uint64_t value) {
        return std::min(static_cast<std::uint32_t>(std::bit_width(value)), buckets - 1);
    }
    /// Writer: enters a value. Cost: two loads and two stores.
    void note(std::uint64_t value) {
        counts_[bucket_of(value)].add(1);
        sum_.add(value);
    }
    /// Any thread: return the number of values in a bucket, and the sum of all values.
    [[nodiscard]] std::uint64_t count(std::uint32_t bucket) const { return counts_[bucket].get(); }
    [[nodiscard]] std::uint64_t sum() const { return sum_.get(); }

private:
    std::array<single_writer_counter, buckets> counts_;
    single_writer_counter sum_;
};

}  // namespace orchard
