// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "tests/properties/perform.hpp"

#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/launch_status.hpp"
#include "tests/support/heap_kernels.cuh"

namespace orchard::test {
namespace {

/// Makes the requests of `perform`.
struct make_requests {
    heap_ref heap;
    const request* requests;
    answer* answers;
    std::uint64_t rounds;

    ORCHARD_FN static std::uint32_t unless(bool right, complaint what) {
        return right ? 0 : static_cast<std::uint32_t>(what);
    }
    ORCHARD_FN static bool all_zero(const void* p, std::uint64_t bytes) {
        const auto* at = static_cast<const unsigned char*>(p);
        bool zero = true;
        for_stamped_bytes(bytes, [&](std::uint64_t i) { zero = zero && at[i] == 0; });
        return zero;
    }
    /// Returns true if the first `kept` bytes are those of the old block.
    ORCHARD_FN static bool keeps(const void* p, std::uint64_t kept, const held_block& old) {
        const auto* at = static_cast<const unsigned char*>(p);
        bool same = true;
        for_stamped_bytes(old.usable,
                          [&](std::uint64_t i) { same = same && (i >= kept || at[i] == stamp_of(old.stamp, i)); });
        return same;
    }
    ORCHARD_FN void* ask(const request& r, void* old) const {
        switch (r.what) {
            case action::malloc: return heap.malloc(r.bytes);
            case action::calloc: return heap.calloc(r.bytes, 1);
            case action::aligned_alloc: return heap.aligned_alloc(r.alignment, r.bytes);
            case action::realloc: return heap.realloc(old, r.bytes);
            case action::free: heap.free(old); return nullptr;
            case action::free_inside:
                // An address in the same page or block at which no block begins.
                heap.free(static_cast<char*>(old) + (r.old.usable < 32 ? 8 : r.old.usable / 2 - 8));
                return nullptr;
            default: return nullptr;
        }
    }
    ORCHARD_FN answer make(const request& r) const {
        answer a;
        auto* old = reinterpret_cast<void*>(r.old.address);
        if (old != nullptr) {
            a.complaints |= unless(has_stamp(old, r.old.usable, r.old.stamp), complaint::changed);
            a.complaints |= unless(heap.usable_size(old) == r.old.usable, complaint::usable_changed);
        }
        void* p = ask(r, old);
        a.address = as_number(p);
        if (p != nullptr) {
            a.usable = heap.usable_size(p);
            a.complaints |= unless(heap.owns(p), complaint::not_owned);
            a.complaints |= unless(r.what != action::calloc || all_zero(p, r.bytes), complaint::not_zero);
            const std::uint64_t kept = r.old.bytes < r.bytes ? r.old.bytes : r.bytes;
            a.complaints |= unless(old == nullptr || keeps(p, kept, r.old), complaint::lost);
            stamp_block(p, a.usable, r.stamp);
        }
        return a;
    }
    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t round = 0; round < rounds; ++round) {
            const std::uint64_t i = round * at.threads() + at.global_thread();
            if (requests[i].what != action::nothing) {
                answers[i] = make(requests[i]);
            }
        }
    }
};

struct look_at_stamps {
    const held_block* blocks;
    std::uint64_t count;
    simt::device_word<std::uint64_t>* changed;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < count && !has_stamp(reinterpret_cast<void*>(blocks[i].address), blocks[i].usable, blocks[i].stamp)) {
            changed->fetch_add<simt::order::relaxed>(1);
        }
    }
};

template <class T>
absl::StatusOr<device_array<T>> array_of(heap& on, const std::vector<T>& from) {
    auto made = device_array<T>::create(on.executor(), from.size());
    if (made.ok()) {
        if (absl::Status s = made->upload(from); !s.ok()) {
            return s;
        }
    }
    return made;
}

}  // namespace

absl::StatusOr<std::vector<answer>> perform(heap& on, const std::vector<request>& requests) {
    const auto wanted = array_of(on, requests);
    const auto got = device_array<answer>::create(on.executor(), requests.size());
    for (const absl::Status& s : {wanted.status(), got.status()}) {
        if (!s.ok()) {
            return s;
        }
    }
    absl::Status s =
        to_status(simt::launch(on.executor(), {launch_warps / 2, 64},
                               make_requests{on.ref(), wanted->data(), got->data(), requests.size() / launch_threads}));
    std::vector<answer> answers(requests.size());
    s.Update(got->download(answers));
    if (!s.ok()) {
        return s;
    }
    return answers;
}

absl::StatusOr<std::uint64_t> count_changed(heap& on, const std::vector<held_block>& blocks) {
    const auto them = array_of(on, blocks);
    const auto changed = device_array<simt::device_word<std::uint64_t>>::create(on.executor(), 1);
    for (const absl::Status& s : {them.status(), changed.status()}) {
        if (!s.ok()) {
            return s;
        }
    }
    absl::Status s = to_status(simt::launch(on.executor(), simt::grid_for(blocks.size(), 64),
                                            look_at_stamps{them->data(), blocks.size(), changed->data()}));
    std::vector<simt::device_word<std::uint64_t>> count(1);
    s.Update(changed->download(count));
    if (!s.ok()) {
        return s;
    }
    return count.front().load<simt::order::relaxed>();
}

}  // namespace orchard::test
