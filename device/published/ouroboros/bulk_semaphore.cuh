// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `bulk_semaphore`: counts the pages of a class, and lets few lanes allocate chunks for many (section 3.4 and Alg. 2
/// of the paper; after Gelado and Garland, 2019).
///
///     bit 63                    51                          31                             0
///         |  expected (12 bits)  |  reserved (20 bits)       |  count (32 bits)             |
///
/// count     pages that are available
/// reserved  pages for which lanes wait
/// expected  chunks that lanes are allocating, each of which brings `pages` pages
///
/// The paper has 21 bits for each and counts expected pages. Here, `count` has 32 bits, since a heap may have more than
/// 2^21 pages of 16 B (32 MiB). 20 bits suffice for `reserved`: a GPU holds fewer than 2^19 lanes, and each waits for
/// one page. `expected` counts chunks; a lane that would exceed 12 bits waits until another one has its chunk.

#include <cstdint>

#include "device/published/serve_together.cuh"
#include "device/simt/atomic.cuh"
#include "device/simt/lane.cuh"

namespace orchard::device::ouroboros {

class bulk_semaphore {
public:
    using records_itself = void;  // touch.cuh

    static constexpr std::uint32_t most_expected = (1u << 12) - 1;

    /// The counters of the word.
    struct counters {
        std::uint32_t count;
        std::uint32_t reserved;
        std::uint32_t expected;  ///< in chunks
    };
    /// Returns the counters now. Relaxed: nothing is read by them.
    [[nodiscard]] ORCHARD_INLINE counters read() const { return split(word_.load<simt::order::relaxed>()); }

    /// Takes `n` pages and returns true; returns false, and takes none, if `allocate` has failed and no `n` pages were
    /// available afterwards. Any lane, alone.
    /// @param pages     what a chunk brings
    /// @param allocate  allocate(): adds a chunk and calls `signal_chunk(pages)`; false if there is no memory
    /// Cost: a load and one atomic if pages are available.
    template <class Allocate>
    ORCHARD_FN bool wait(std::uint32_t n, std::uint32_t pages, const Allocate& allocate) {
        bool refused = false;
        for (;;) {
            std::uint64_t found = word_.load<simt::order::relaxed>();
            const counters v = split(found);
            if (v.count >= n) {
                // Acquire: pairs with `signal`; the pages' places in the queue.
                if (word_.compare_exchange<simt::order::acquire>(found, found - n)) {
                    return true;
                }
            } else if (refused) {
                return false;
            } else if (covered(v, pages) >= std::uint64_t{v.reserved} + n) {
                // Relaxed: the word is read again when the wait is over.
                if (word_.compare_exchange<simt::order::relaxed>(found, found + n * one_reserved)) {
                    wait_for_pages(n, pages);
                    word_.fetch_sub<simt::order::relaxed>(n * one_reserved);
                }
            } else if (v.expected == most_expected) {
                simt::pause(short_pause);
            } else if (word_.compare_exchange<simt::order::relaxed>(found, found + one_expected) && !allocate()) {
                // The chunk does not come. Lanes that counted on it see that it is not expected any more.
                word_.fetch_sub<simt::order::relaxed>(one_expected);
                refused = true;
            }
        }
    }

    /// Takes `n` pages and returns true if that many are available. Any lane, alone; it never waits.
    ORCHARD_INLINE bool try_take(std::uint32_t n) {
        std::uint64_t found = word_.load<simt::order::relaxed>();
        while (split(found).count >= n) {
            // Acquire: as in `wait`.
            if (word_.compare_exchange<simt::order::acquire>(found, found - n)) {
                return true;
            }
        }
        return false;
    }

    /// Adds `n` pages. Acquire and release: pairs with `wait`; and a lane that has added the last page of a chunk sees
    /// all that lanes did before they added the others.
    ORCHARD_INLINE void signal(std::uint32_t n) { word_.fetch_add<simt::order::acq_rel>(n); }

    /// Adds the `pages` pages of a chunk that was expected. Order: as `signal`.
    ORCHARD_INLINE void signal_chunk(std::uint32_t pages) {
        word_.fetch_add<simt::order::acq_rel>(pages - one_expected);
    }

private:
    static constexpr std::uint64_t one_reserved = std::uint64_t{1} << 32;
    static constexpr std::uint64_t one_expected = std::uint64_t{1} << 52;
    static constexpr std::uint32_t short_pause = 100;  // nanoseconds
    static constexpr std::uint32_t long_pause = 2000;  // nanoseconds

    [[nodiscard]] static ORCHARD_INLINE counters split(std::uint64_t word) {
        return {static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(word >> 32 & 0xfffff),
                static_cast<std::uint32_t>(word >> 52)};
    }
    /// Returns the pages that are there or will be.
    [[nodiscard]] static ORCHARD_INLINE std::uint64_t covered(const counters& v, std::uint32_t pages) {
        return v.count + std::uint64_t{v.expected} * pages;
    }
    /// Waits until `n` pages are available, or the expected pages no longer suffice for all lanes that wait. This lane
    /// is among them, so that the lines 17 and 18 of Alg. 2 need "at most", not "less".
    ORCHARD_FN void wait_for_pages(std::uint32_t n, std::uint32_t pages) const {
        std::uint32_t nanoseconds = short_pause;
        for (counters v = read(); v.count < n && v.reserved <= covered(v, pages); v = read()) {
            simt::pause(nanoseconds);
            nanoseconds = nanoseconds < long_pause ? nanoseconds * 2 : nanoseconds;
        }
    }

    simt::device_word<std::uint64_t> word_;
};

/// Takes a page from the semaphore for each lane of `group`, which call it together. Returns whether the calling lane
/// has got one. One lane takes them for all, unless there are not as many. In print each lane acts for itself.
///
/// At most a chunk's pages are taken at a time: a lane that needed more, and had added a chunk that did not suffice,
/// would give it back in search of memory, and add it again for ever.
/// @param pages, allocate  as for `bulk_semaphore::wait`
template <class Allocate>
ORCHARD_INLINE bool wait_together(bulk_semaphore& semaphore, simt::lane_mask group, std::uint32_t pages,
                                  const Allocate& allocate) {
    const auto take = [&](std::uint32_t lanes) {
        const std::uint32_t n = lanes < pages ? lanes : pages;
        return taken_together{0, semaphore.wait(n, pages, allocate) ? n : 0};
    };
    bool has = false;
    serve_together(group, group, take, [&](std::uint64_t, std::uint32_t) { has = true; });
    return has || (simt::popcount(group) != 1 && semaphore.wait(1, pages, allocate));
}

}  // namespace orchard::device::ouroboros
