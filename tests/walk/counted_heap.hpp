// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace orchard::examples::test {

/// A replacement for a heap on the emulated device: the C library's heap, with a count of requests and a limit. It is a
/// view by value, like the real one; the test owns the data.
class counted_heap {
public:
    struct counters {
        std::atomic<std::int64_t> live{0};
        std::atomic<std::int64_t> allocations{0};
        std::atomic<std::int64_t> moves{0};
        std::int64_t most = INT64_MAX;  ///< requests that succeed; later ones get null
    };

    explicit counted_heap(counters* c) : c_{c} {}

    void* malloc(std::uint64_t bytes) const {
        if (c_->allocations.fetch_add(1) >= c_->most) {
            return nullptr;
        }
        c_->live.fetch_add(1);
        return std::malloc(bytes);
    }
    void free(void* p) const {
        if (p != nullptr) {
            c_->live.fetch_sub(1);
            std::free(p);
        }
    }
    void* realloc(void* p, std::uint64_t bytes) const {
        if (c_->allocations.fetch_add(1) >= c_->most) {
            return nullptr;
        }
        (p == nullptr ? c_->live : c_->moves).fetch_add(1);
        return std::realloc(p, bytes);
    }

private:
    counters* c_;
};

}  // namespace orchard::examples::test
