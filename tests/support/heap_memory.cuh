// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The data of a heap in device memory, for tests of its parts: all zero, without mailbox, service or user memory.

#include <sys/mman.h>

#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "device/small/search.cuh"

namespace orchard::rig {

class heap_memory {
public:
    /// @param stored_rows  of the chunk store; 0: none
    explicit heap_memory(std::uint32_t segments, std::uint32_t stored_rows = 0) {
        view.segments = segments;
        view.stored_rows = stored_rows;
        view.max_slabs = segments;
        device::for_each_array(view, [this](auto*& array, std::uint64_t count, std::uint64_t) {
            array = make_array<std::remove_reference_t<decltype(*array)>>(count);
        });
        view.self = &view;
        view.state->end.host.store<simt::order::relaxed>(view.segments);
    }
    heap_memory(const heap_memory&) = delete;
    heap_memory& operator=(const heap_memory&) = delete;

    /// Bits set in the segment cache's words.
    [[nodiscard]] std::uint32_t cache_bits() const {
        int n = 0;
        for (const auto& w : cache()) {
            n += simt::popcount(w.load<simt::order::acquire>());
        }
        return static_cast<std::uint32_t>(n);
    }
    /// Returns true if the summary marks every word that is not empty. This must hold while no thread uses the heap.
    [[nodiscard]] bool summary_is_complete() const {
        for (std::size_t i = 0; i < cache().size(); ++i) {
            const bool named = (view.cache_summary[i / 64].load<simt::order::acquire>() >> (i % 64) & 1) != 0;
            if (!named && cache()[i].load<simt::order::acquire>() != 0) {
                return false;
            }
        }
        return true;
    }
    /// Returns true if no page of any slab is in use.
    [[nodiscard]] bool bitmaps_are_clear() const {
        for (const auto& w : std::span(view.bitmaps, view.segments * device::bitmap_words)) {
            if (w.load<simt::order::acquire>() != 0) {
                return false;
            }
        }
        return true;
    }
    [[nodiscard]] std::uint64_t sum(device::counter c) const {
        std::uint64_t total = 0;
        for (const auto& counts : view.state->counts) {
            total += counts.value[static_cast<int>(c)].load<simt::order::acquire>();
        }
        return total;
    }

    device::heap_view view;

private:
    [[nodiscard]] std::span<const simt::device_word<std::uint64_t>> cache() const {
        return {view.cache, view.cache_words()};
    }

    /// Returns `count` zero values. A large array is mapped and takes memory only where it is written.
    template <class Value>
    Value* make_array(std::uint64_t count) {
        constexpr std::uint64_t large = 64 << 20;
        const std::uint64_t bytes = count * sizeof(Value);
        if (bytes < large) {
            auto memory = std::make_shared<std::vector<Value>>(count);
            arrays_.push_back(memory);
            return memory->data();
        }
        void* const at =
            ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED) {
            throw std::bad_alloc();
        }
        arrays_.emplace_back(at, [bytes](void* mapped) { ::munmap(mapped, bytes); });
        return static_cast<Value*>(at);
    }

    std::vector<std::shared_ptr<void>> arrays_;
};

/// Makes a segment that the caller owns a slab, at the first empty index of the class's table. Any lane, alone. Returns
/// false if the table is full.
inline bool publish(const device::heap_view& h, std::uint32_t page_class, std::uint32_t segment) {
    for (std::uint32_t place = 0; place < h.segments; ++place) {
        if (device::reserve_index(h, page_class, place) == 0) {
            device::slab_publish(h, page_class, place, segment);
            return true;
        }
    }
    return false;
}

/// As above, called by a group, whose leader publishes.
inline bool publish(const device::heap_view& h, simt::lane_mask mask, std::uint32_t page_class, std::uint32_t segment) {
    const bool done = device::is_leader(mask) && publish(h, page_class, segment);
    simt::sync(mask);
    return device::from_leader(mask, done ? 1u : 0u) != 0;
}

/// Claims up to `want` of the pages that are free in a word. Any lane, alone. The bits won.
inline std::uint64_t claim(const device::heap_view& h, std::uint32_t page_class, std::uint32_t segment,
                           std::uint32_t word, std::uint32_t want) {
    const std::uint64_t taken = h.bitmap(segment)[word].load<simt::order::relaxed>();
    const std::uint64_t bits = device::lowest_ones(~taken & class_word_mask(page_class, word), want);
    return bits != 0 ? device::slab_claim(h, page_class, segment, word, bits) : 0;
}

}  // namespace orchard::rig
