// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The kernels of the arena, templates of an allocator's view (`device::device_allocator`): all allocators run the same
/// code around the call.

#include <cstdint>

#include "device/published/device_allocator.cuh"
#include "device/simt/atomic.cuh"
#include "device/simt/launch.cuh"
#include "device/simt/random.hpp"
#include "uvm/geometry/size_classes.hpp"

namespace orchard::arena {

using simt::order;

/// What kernels count about the blocks that they do not keep.
struct counts {
    simt::device_word<std::uint64_t> nulls;
    simt::device_word<std::uint64_t> wrong;       ///< blocks that lost what was written into them
    simt::device_word<std::uint64_t> misaligned;  ///< to 16 B
};

/// The requests of a launch. Each is computed from the thread's number, so that the host and other kernels find the
/// same size.
struct request {
    std::uint32_t least = 0;                ///< bytes
    std::uint32_t most = 0;                 ///< bytes, included
    std::uint32_t lanes = simt::warp_size;  ///< the first ones of each warp ask
    bool powers = false;                    ///< sizes are `least` times powers of two
    bool by_lane = false;                   ///< sizes are those of Orchard's classes, one after the other from `least`
    std::uint32_t of_first = 0;             ///< bytes that thread 0 asks for instead; 0: as the others

    /// Returns the bytes of request `round` of thread `i`: a multiple of 4, as in Winter et al.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t bytes(std::uint64_t i, std::uint32_t round = 0) const {
        if (i == 0 && of_first != 0) {
            return of_first;
        }
        if (least == most) {
            return least;
        }
        if (by_lane) {
            const std::uint32_t first = class_of(least);
            return class_bytes(first + static_cast<std::uint32_t>(i % simt::warp_size) % (class_of(most) - first + 1));
        }
        if (powers) {
            const auto exponents = static_cast<std::uint32_t>(simt::highest_bit(most / least)) + 1;
            return least << simt::below32(simt::random_bits(1, i, round), exponents);
        }
        const std::uint32_t steps = (most - least) / 4 + 1;
        return least + 4 * simt::below32(simt::random_bits(1, i, round), steps);
    }
    [[nodiscard]] ORCHARD_INLINE bool asks(std::uint64_t i) const { return i % simt::warp_size < lanes; }
};

/// Thread i allocates `out[i]`; null if it does not ask.
template <class View>
struct allocate_kernel {
    View view;
    request what;
    void** out;
    std::uint64_t threads;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < threads) {
            out[i] = what.asks(i) ? view.malloc(what.bytes(i)) : nullptr;
        }
    }
};

/// Thread i frees `out[i]`.
template <class View>
struct free_kernel {
    View view;
    void** out;
    std::uint64_t threads;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < threads) {
            void* p = out[i];
            // A free that does nothing must read its pointer, too. No address is 1.
            if (reinterpret_cast<std::uintptr_t>(p) == 1) {
                out[i] = nullptr;
            }
            view.free(p);
        }
    }
};

/// Thread i writes all words of its block, as the output of a work generation (Winter et al., Fig. 11e).
struct write_kernel {
    request what;
    void** blocks;
    std::uint64_t threads;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < threads && blocks[i] != nullptr) {
            auto* words = static_cast<std::uint32_t*>(blocks[i]);
            for (std::uint32_t k = 0; k < what.bytes(i) / 4; ++k) {
                words[k] = static_cast<std::uint32_t>(i);
            }
        }
    }
};

/// Thread i counts its block as wrong if the first or last word is not its number.
struct verify_kernel {
    request what;
    void** blocks;
    std::uint64_t threads;
    counts* count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < threads && blocks[i] != nullptr) {
            const auto* words = static_cast<const std::uint32_t*>(blocks[i]);
            const auto mine = static_cast<std::uint32_t>(i);
            if (words[0] != mine || words[what.bytes(i) / 4 - 1] != mine) {
                count->wrong.fetch_add<order::relaxed>(1);
            }
        }
    }
};

/// Notes a block that a kernel does not keep for the host.
ORCHARD_INLINE void note_block(counts* count, void* p) {
    if (p == nullptr) {
        count->nulls.fetch_add<order::relaxed>(1);
    } else if (reinterpret_cast<std::uintptr_t>(p) % 16 != 0) {
        count->misaligned.fetch_add<order::relaxed>(1);
    }
}

/// Thread i allocates blocks `out[i * rounds]` to `out[i * rounds + rounds - 1]`, one after the other.
template <class View>
struct keep_kernel {
    View view;
    request what;
    std::uint32_t rounds;
    void** out;
    std::uint64_t threads;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        for (std::uint32_t round = 0; i < threads && round < rounds; ++round) {
            out[i * rounds + round] = view.malloc(what.bytes(i, round));
        }
    }
};

/// Frees every second block of `out`, and counts the pointers that are null.
template <class View>
struct free_half_kernel {
    View view;
    void** out;
    std::uint64_t count;
    counts* found;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < count && out[i] == nullptr) {
            found->nulls.fetch_add<order::relaxed>(1);
        }
        if (i < count && i % 2 == 1) {
            view.free(out[i]);
        }
    }
};

/// Frees a random share of the blocks of `out`, and makes their pointers null.
template <class View>
struct free_share_kernel {
    View view;
    void** out;
    std::uint64_t count;
    std::uint32_t per_mille;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < count && simt::below32(simt::random_bits(6, i, 0), 1000) < per_mille) {
            view.free(out[i]);
            out[i] = nullptr;
        }
    }
};

/// Thread i adds to one word that all threads share, and keeps what was there. What it adds differs from lane to lane,
/// so that the compiler does not make one addition of a warp's.
struct add_kernel {
    simt::device_word<std::uint64_t>* shared;
    std::uint64_t* out;
    std::uint64_t threads;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < threads) {
            out[i] = shared->fetch_add<order::relaxed>(1 + i % 2);
        }
    }
};

/// Thread i chooses one of its slots at random: it fills the slot if it is empty, and otherwise frees the block in it,
/// which must still hold the thread's number.
template <class View>
struct turn_over_kernel {
    View view;
    request what;
    std::uint32_t slots;  ///< of a thread
    std::uint32_t round;
    void** out;
    std::uint64_t threads;
    counts* count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i >= threads) {
            return;
        }
        void*& slot = out[i * slots + simt::below32(simt::random_bits(7, i, round), slots)];
        auto* words = static_cast<std::uint64_t*>(slot);
        if (words == nullptr) {
            words = static_cast<std::uint64_t*>(view.malloc(what.bytes(i, round)));
            note_block(count, words);
            if (words != nullptr) {
                words[0] = i;
            }
            slot = words;
            return;
        }
        if (words[0] != i) {
            count->wrong.fetch_add<order::relaxed>(1);
        }
        view.free(words);
        slot = nullptr;
    }
};

/// Rounds of malloc, write and free; each round of a thread asks for another size. With `check`, the block must still
/// hold the thread's number after others had time to write.
template <class View>
struct churn_kernel {
    View view;
    request what;
    std::uint32_t rounds;
    std::uint64_t threads;
    bool check;
    counts* count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        for (std::uint32_t round = 0; i < threads && what.asks(i) && round < rounds; ++round) {
            const std::uint32_t bytes = what.bytes(i, round);
            auto* words = static_cast<std::uint32_t*>(view.malloc(bytes));
            note_block(count, words);
            if (words == nullptr) {
                continue;
            }
            const auto mine = static_cast<std::uint32_t>(i * rounds + round);
            words[0] = mine;
            if (check) {
                words[bytes / 4 - 1] = mine;
                simt::pause(100);
                const volatile std::uint32_t* seen = words;  // read again, not taken from a register
                if (seen[0] != mine || seen[bytes / 4 - 1] != mine) {
                    count->wrong.fetch_add<order::relaxed>(1);
                }
            }
            view.free(words);
        }
    }
};

/// A link of a list.
struct link {
    link* next;
    std::uint64_t owner;
};

/// The length of the list of thread i, 1 to `longest`: lanes of a warp leave the loop at different times.
ORCHARD_INLINE std::uint32_t length_of(std::uint64_t i, std::uint32_t longest) {
    return 1 + simt::below32(simt::random_bits(2, i, 0), longest);
}

/// Thread i builds the list `out[i]`.
template <class View>
struct build_lists_kernel {
    View view;
    request what;  ///< at least 16 B
    std::uint32_t longest;
    void** out;
    std::uint64_t threads;
    counts* count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i >= threads) {
            return;
        }
        link* first = nullptr;
        for (std::uint32_t k = 0; k < length_of(i, longest); ++k) {
            auto* added = static_cast<link*>(view.malloc(what.bytes(i, k)));
            note_block(count, added);
            if (added != nullptr) {
                added->next = first;
                added->owner = i;
                first = added;
            }
        }
        out[i] = first;
    }
};

/// Thread i frees the list `out[i]`; a link of another owner is counted as wrong, and ends the walk.
template <class View>
struct free_lists_kernel {
    View view;
    std::uint32_t longest;
    void** out;
    std::uint64_t threads;
    counts* count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        auto* first = i < threads ? static_cast<link*>(out[i]) : nullptr;
        // Bounded: two lists that share a link may form a ring.
        for (std::uint32_t k = 0; k < longest && first != nullptr; ++k) {
            if (first->owner != i) {
                count->wrong.fetch_add<order::relaxed>(1);
                return;
            }
            link* next = first->next;
            view.free(first);
            first = next;
        }
    }
};

/// Thread i doubles its block `rounds` times by realloc, and checks that its first word stays.
template <class View>
struct grow_kernel {
    View view;
    std::uint32_t bytes;
    std::uint32_t rounds;
    void** out;
    std::uint64_t threads;
    counts* count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i >= threads) {
            return;
        }
        auto* words = static_cast<std::uint64_t*>(view.malloc(bytes));
        note_block(count, words);
        if (words != nullptr) {
            words[0] = i;
        }
        for (std::uint32_t round = 1; words != nullptr && round <= rounds; ++round) {
            auto* grown = static_cast<std::uint64_t*>(view.realloc(words, std::uint64_t{bytes} << round));
            note_block(count, grown);
            if (grown == nullptr) {
                break;  // the block stays as it was
            }
            words = grown;
            const volatile std::uint64_t* seen = words;
            if (*seen != i) {
                count->wrong.fetch_add<order::relaxed>(1);
            }
        }
        out[i] = words;
    }
};

/// Warps with an even number in their block allocate; each lane hands its blocks one by one to the same lane of the
/// next warp, which frees them. Both warps are in one block, and therefore run at the same time; each waits for the
/// other one's slot alone, so that one of the two can always go on.
///
///     slot    0: empty; 1: the producer got null; otherwise the address
template <class View>
struct handover_kernel {
    static constexpr std::uint32_t block_threads = 256;  ///< an even number of warps

    View view;
    request what;
    std::uint32_t rounds;
    simt::device_word<std::uint64_t>* slots;  ///< one for each pair of lanes
    counts* count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint32_t warp = at.thread / simt::warp_size;
        const std::uint64_t i = std::uint64_t{at.block} * (at.threads_per_block / 2) + warp / 2 * simt::warp_size +
                                at.thread % simt::warp_size;
        if (warp % 2 == 0) {
            produce(slots[i], i);
        } else {
            consume(slots[i], i);
        }
    }

    ORCHARD_FN void produce(simt::device_word<std::uint64_t>& slot, std::uint64_t i) const {
        for (std::uint32_t round = 0; round < rounds; ++round) {
            auto* p = static_cast<std::uint64_t*>(view.malloc(what.bytes(i, round)));
            note_block(count, p);
            if (p != nullptr) {
                *p = i;
            }
            // Acquire: pairs with the consumer's release.
            while (slot.load<order::acquire>() != 0) {
                simt::pause(100);
            }
            // Release: the consumer sees what was written into the block.
            slot.store<order::release>(p == nullptr ? 1 : reinterpret_cast<std::uintptr_t>(p));
        }
    }

    ORCHARD_FN void consume(simt::device_word<std::uint64_t>& slot, std::uint64_t i) const {
        for (std::uint32_t round = 0; round < rounds; ++round) {
            std::uint64_t found = 0;
            // Acquire: pairs with the producer's release.
            while ((found = slot.load<order::acquire>()) == 0) {
                simt::pause(100);
            }
            // Release: the producer does not write the next block before this one was taken.
            slot.store<order::release>(0);
            if (found != 1) {
                auto* p = reinterpret_cast<std::uint64_t*>(found);
                if (*p != i) {
                    count->wrong.fetch_add<order::relaxed>(1);
                }
                view.free(p);
            }
        }
    }
};

}  // namespace orchard::arena
