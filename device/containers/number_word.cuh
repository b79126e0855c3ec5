// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `number_word`: the word from which threads take the numbers of a container's elements, and by which one thread at a
/// time adds memory for more of them.
///
///     bit 63                                                               0
///         |   failures   |      steps      |            taken             |
///
/// `steps` counts the parts of memory that were added; the container says up to which number they reach, the limit. The
/// word is open while `taken` is at most the limit. A call adds to `taken`, and the old value alone decides:
///
///     taken + count <= limit    the numbers from `taken` on are the caller's
///     else, taken <= limit      the caller is the first one beyond the limit, and has thereby closed the word. It adds
///                               memory, and then opens the word by a store: with its own numbers alone as taken, or,
///                               without memory, as it was before, with a failure more
///     else                      the word is closed. The caller's numbers vanish by the store. It waits for the store,
///                               and takes again; it fails if that was a failure
///
/// Hence no number is lost or taken twice, nothing is given back, and of many threads that need memory one asks for it.

#include <cstdint>

#include "device/simt/atomic.cuh"
#include "device/simt/lane.cuh"

namespace orchard::device {

/// @tparam TakenBits  must be enough for the greatest limit and what all threads of the device add while it is closed
template <std::uint32_t TakenBits, std::uint32_t StepBits>
class number_word {
    static_assert(TakenBits + StepBits < 64);

public:
    using records_itself = void;  // touch.cuh

    /// The parts of the word.
    struct parts {
        std::uint64_t taken;
        std::uint64_t steps;
        std::uint64_t failures;
    };

    /// Returns the parts now. Relaxed: nothing is read by them.
    [[nodiscard]] ORCHARD_INLINE parts read() const { return split(word_.template load<simt::order::relaxed>()); }

    /// Returns the same for callers that read the memory that was added. Acquire: pairs with the store of `add_memory`.
    [[nodiscard]] ORCHARD_INLINE parts acquire() const { return split(word_.template load<simt::order::acquire>()); }

    /// Sets all parts to zero. No other thread uses the word.
    ORCHARD_INLINE void reset() { word_.template store<simt::order::relaxed>(0); }

    /// Takes `count` numbers, and returns true and where they begin in `got`; false if there is no memory for them. One
    /// lane of a group calls it, for all; the others are ordered behind what it acquires by `simt::sync`.
    /// @param longest_wait_ns  after which a call that waits for another one fails
    /// @param limit  limit(steps): the first number beyond the memory of so many steps
    /// @param add    add(got, next): adds memory for the numbers from `got` to `next`, which it may change, as where
    ///     numbers begin anew with each step; false if there is none. `next.steps` holds in either case
    /// Cost: one atomic, unless memory is added.
    template <class Limit, class Add>
    ORCHARD_FN bool take(std::uint64_t count, std::uint64_t longest_wait_ns, const Limit& limit, const Add& add,
                         parts& got) {
        for (;;) {
            // Acquire: what the thread that opened the word has released, its parts of memory among it.
            got = split(word_.template fetch_add<simt::order::acquire>(count));
            const std::uint64_t end = limit(got.steps);
            if (got.taken + count <= end) {
                return true;
            }
            if (got.taken <= end) {
                return add_memory(count, add, got);
            }
            if (!wait_until_open(longest_wait_ns, limit, got.failures)) {
                return false;
            }
        }
    }

private:
    static constexpr std::uint64_t taken_mask = (std::uint64_t{1} << TakenBits) - 1;
    static constexpr std::uint64_t step_mask = (std::uint64_t{1} << StepBits) - 1;

    [[nodiscard]] static ORCHARD_INLINE parts split(std::uint64_t word) {
        return {word & taken_mask, word >> TakenBits & step_mask, word >> (TakenBits + StepBits)};
    }
    /// Failures and steps begin anew after their greatest value.
    [[nodiscard]] static ORCHARD_INLINE std::uint64_t join(const parts& v) {
        return v.failures << (TakenBits + StepBits) | (v.steps & step_mask) << TakenBits | v.taken;
    }

    /// Adds memory, and opens the word, which this thread has closed when it was `got`.
    template <class Add>
    ORCHARD_FN bool add_memory(std::uint64_t count, const Add& add, parts& got) {
        const parts before = got;
        parts next{got.taken + count, got.steps, got.failures};
        const bool added = add(got, next);
        if (!added) {
            next.taken = before.taken;
            ++next.failures;
        }
        if (simt::mutation::is(simt::mutation::fault::numbers_kept)) {
            const parts closed{before.taken + count, before.steps, before.failures};
            word_.template fetch_add<simt::order::release>(join(next) - join(closed));
            return added;
        }
        // Release: the memory that was added. Pairs with the additions of `take`.
        word_.template store<simt::order::release>(join(next));
        return added;
    }

    /// Returns true when the word is open, and none has failed meanwhile to add memory.
    template <class Limit>
    ORCHARD_FN bool wait_until_open(std::uint64_t longest_wait_ns, const Limit& limit, std::uint64_t failures) const {
        const std::uint64_t since = simt::clock_ns();
        parts now = read();
        while (now.taken > limit(now.steps)) {
            if (simt::clock_ns() - since > longest_wait_ns) {
                return false;
            }
            simt::pause(500);
            now = read();
        }
        return now.failures == failures;
    }

    simt::device_word<std::uint64_t> word_;
};

}  // namespace orchard::device
