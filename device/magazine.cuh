// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The magazine: granted segments waiting on the device, so that the common request needs no round trip.
///
/// A bitmap, one bit a segment, and a summary with one bit for each of its words: taking and putting are one atomic
/// each, whoever else does the same. The summary may say 1 for an empty word, and says 0 for a word that holds
/// something only while somebody is about to set it.

#include "device/heap_state.cuh"
#include "device/random_walk/bits.cuh"

namespace orchard::device {

/// Segments at hand; a snapshot.
ORCHARD_INLINE std::uint32_t magazine_level(const heap_view& h) {
    const auto level = static_cast<std::int64_t>(h.state->magazine_level.word.load<order::relaxed>());
    return level > 0 ? static_cast<std::uint32_t>(level) : 0;
}

/// Puts a run into the magazine. Any lane, alone; never waits. Releases what the caller did to the memory.
/// Cost: two atomics for each 64 segments.
inline ORCHARD_FN void magazine_put(const heap_view& h, segment_run run) {
    std::uint32_t first = to_underlying(run.first);
    std::uint32_t left = run.count;
    // The level first: it must not be seen below what is there, or a taker could bring it under zero for long.
    h.state->magazine_level.word.fetch_add<order::relaxed>(run.count);
    while (left != 0) {
        const std::uint32_t bit = first % 64;
        const std::uint32_t n = left < 64 - bit ? left : 64 - bit;
        const std::uint64_t bits = (n == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1) << bit;
        h.magazine[first / 64].fetch_or<order::release>(bits);
        h.magazine_summary[first / 4096].fetch_or<order::release>(std::uint64_t{1} << (first / 64 % 64));
        first += n;
        left -= n;
    }
}

/// One of the set bits, all alike; `bits` must not be 0.
ORCHARD_INLINE int random_bit(std::uint64_t bits, std::uint32_t random) {
    return random_walk::nth_one(bits, static_cast<int>(random % static_cast<std::uint32_t>(simt::popcount(bits))));
}

/// The lowest run of `k` <= 64 ones in `bits`; 0 where there is none.
ORCHARD_INLINE std::uint64_t run_in_word(std::uint64_t bits, std::uint32_t k) {
    std::uint64_t starts = bits;
    std::uint32_t have = 1;
    while (have < k && starts != 0) {
        const std::uint32_t step = have < k - have ? have : k - have;
        starts &= starts >> step;
        have += step;
    }
    if (starts == 0) {
        return 0;
    }
    const std::uint64_t ones = k == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << k) - 1;
    return ones << simt::lowest_bit(starts);
}

/// Takes one word's run of `k` segments, from a random place in the word where k is 1. Any lane, alone.
inline ORCHARD_FN bool magazine_take_from(const heap_view& h, std::uint32_t word, std::uint32_t k, std::uint32_t random,
                                          segment_run* taken) {
    auto& w = h.magazine[word];
    for (int attempt = 0; attempt < 8; ++attempt) {
        const std::uint64_t bits = w.load<order::relaxed>();
        if (bits == 0) {
            // Tidy the summary; put it right again if somebody has just filled the word.
            auto& summary = h.magazine_summary[word / 64];
            summary.fetch_and<order::acq_rel>(~(std::uint64_t{1} << (word % 64)));
            if (w.load<order::relaxed>() != 0) {
                summary.fetch_or<order::release>(std::uint64_t{1} << (word % 64));
                continue;
            }
            return false;
        }
        std::uint64_t want = 0;
        if (k == 1) {
            want = std::uint64_t{1} << random_bit(bits, mix(random + static_cast<std::uint32_t>(attempt)));
        } else {
            want = run_in_word(bits, k);
        }
        if (want == 0) {
            return false;
        }
        // Acquires what the last owner released with its put.
        const std::uint64_t won = w.fetch_and<order::acquire>(~want) & want;
        if (won == want) {
            h.state->magazine_level.word.fetch_sub<order::relaxed>(k);
            *taken = {segment_index{word * 64 + static_cast<std::uint32_t>(simt::lowest_bit(want))}, k};
            return true;
        }
        if (won != 0) {
            w.fetch_or<order::release>(won);
            h.magazine_summary[word / 64].fetch_or<order::release>(std::uint64_t{1} << (word % 64));
        }
    }
    return false;
}

/// Takes a run of `k` segments; called by all lanes of a converged group, same result in all.
/// Runs of more than 64 segments are not kept here. Cost on a hit: a summary word, a word, one atomic.
inline ORCHARD_FN bool magazine_take(const heap_view& h, lane_mask mask, std::uint32_t k, segment_run* taken) {
    if (k > 64 || from_leader(mask, magazine_level(h)) < k) {
        return false;
    }
    const std::uint32_t summary_words = (h.magazine_words() + 63) / 64;
    const auto width = static_cast<std::uint32_t>(simt::popcount(mask));
    const auto rank = static_cast<std::uint32_t>(simt::rank_in(mask));
    const std::uint32_t random = mix(static_cast<std::uint32_t>(simt::position().global_warp()) * 64 +
                                     static_cast<std::uint32_t>(simt::leader_of(mask)));
    const std::uint32_t start = from_leader(mask, random) % summary_words;
    for (std::uint32_t i = 0; i < summary_words; i += width) {
        const std::uint32_t index = (start + i + rank) % summary_words;
        const std::uint64_t summary = i + rank < summary_words ? h.magazine_summary[index].load<order::relaxed>() : 0;
        lane_mask candidates = simt::ballot(mask, summary != 0);
        while (candidates != 0) {
            const int source = simt::lowest_bit(candidates);
            candidates &= candidates - 1;
            const std::uint64_t words = simt::shuffle(mask, summary, source);
            const std::uint32_t summary_word = simt::shuffle(mask, index, source);
            std::uint32_t found = 0;
            segment_run run;
            if (is_leader(mask)) {
                for (std::uint64_t left = words; left != 0 && found == 0;) {
                    const int bit = random_bit(left, random);
                    left &= ~(std::uint64_t{1} << bit);
                    const std::uint32_t word = summary_word * 64 + static_cast<std::uint32_t>(bit);
                    found = magazine_take_from(h, word, k, random, &run) ? 1 : 0;
                }
            }
            if (from_leader(mask, found) != 0) {
                *taken = {segment_index{from_leader(mask, to_underlying(run.first))}, k};
                return true;
            }
        }
    }
    return false;
}

/// Takes whatever one magazine word holds; any lane, alone. For giving segments back to the host.
ORCHARD_INLINE std::uint64_t magazine_drain_word(const heap_view& h, std::uint32_t word) {
    const std::uint64_t bits = h.magazine[word].exchange<order::acquire>(0);
    if (bits != 0) {
        h.state->magazine_level.word.fetch_sub<order::relaxed>(static_cast<std::uint64_t>(simt::popcount(bits)));
    }
    return bits;
}

}  // namespace orchard::device
