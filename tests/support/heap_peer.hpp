// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Reads and damages a heap's metadata, for tests of the functions that detect the damage.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/heap.hpp"

namespace orchard::test {

/// Raw access to the metadata of a heap that no kernel uses meanwhile.
class heap_peer {
public:
    explicit heap_peer(heap& h) : on_{h.executor()}, view_{h.ref().view()} {}

    [[nodiscard]] const device::heap_view& view() const { return view_; }

    /// The word at a place in device memory.
    template <class Word>
    [[nodiscard]] std::uint64_t read(const Word* at) const {
        static_assert(sizeof(Word) == 4 || sizeof(Word) == 8);
        std::uint64_t value = 0;
        const absl::Status s = copy_to_host(on_, &value, at, sizeof(Word));
        EXPECT_TRUE(s.ok()) << s;
        return value;
    }
    template <class Word>
    void write(Word* at, std::uint64_t value) const {
        static_assert(sizeof(Word) == 4 || sizeof(Word) == 8);
        const absl::Status s = copy_to_device(on_, at, &value, sizeof(Word));
        EXPECT_TRUE(s.ok()) << s;
    }

    [[nodiscard]] std::uint64_t descriptor(std::uint32_t segment) const { return read(&view_.descriptor(segment)); }
    [[nodiscard]] std::uint64_t cache_word(std::uint32_t word) const { return read(&view_.cache[word]); }
    /// Segment of an address.
    [[nodiscard]] std::uint32_t segment_of(std::uint64_t address) const {
        return static_cast<std::uint32_t>((address - reinterpret_cast<std::uint64_t>(view_.base)) >> segment_shift);
    }
    /// Returns the address of the first invalid free; 0 if there was none.
    [[nodiscard]] std::uint64_t first_invalid_free() const { return read(&view_.state->failure.first_invalid_free); }

private:
    simt::executor on_;
    device::heap_view view_;
};

/// Words that were changed; puts the old values back when it ends.
class planted_fault {
public:
    explicit planted_fault(const heap_peer& peer) : peer_{peer} {}
    planted_fault(const planted_fault&) = delete;
    planted_fault& operator=(const planted_fault&) = delete;
    ~planted_fault() {
        for (auto old = before_.rbegin(); old != before_.rend(); ++old) {
            old->restore(peer_, old->at, old->value);
        }
    }

    template <class Word>
    void set(Word* at, std::uint64_t value) {
        before_.push_back({at, peer_.read(at), [](const heap_peer& peer, void* to, std::uint64_t old) {
                               peer.write(static_cast<Word*>(to), old);
                           }});
        peer_.write(at, value);
    }

private:
    struct change {
        void* at;
        std::uint64_t value;
        void (*restore)(const heap_peer&, void*, std::uint64_t);
    };
    const heap_peer& peer_;
    std::vector<change> before_;
};

}  // namespace orchard::test
