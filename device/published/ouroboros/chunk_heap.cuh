// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `chunk_heap`: an instance whose queues hold the chunks that have free pages (section 4.2, Alg. 4 and 5 of the
/// paper).
///
///     allocate   takes a page from the semaphore; finds it: in the current chunk, the head of the class's queue, which
///                stands in a word of its own. If that has none, takes it away, and the next one from the queue
///     free       sets the page's bit, and lists the chunk if it is not listed; signals the page. If all pages of the
///                chunk are free, takes them from the semaphore, and gives the chunk to the pool, for any use
///
/// One word, the chunk's state, decides everything: a claim of a page, a listing, and the way to the pool are each one
/// compare-and-swap on it. A lane that comes with an old index therefore either claims a page of its own class, or
/// none. In print, the number of free pages, the class and the place in the queue are separate; a lane that has read an
/// index from the queue may claim a page of a chunk that has meanwhile got another class.
///
/// The bit `listed` of a class in the state means that the chunk is in the queue of this class, or is its current
/// chunk, or that one lane has taken it from there and is about to decide. So no queue has a chunk twice, and one place
/// for each chunk suffices. A chunk that goes to the pool stays listed: the lane that finds it in the queue removes it
/// there.

#include <cstdint>

#include "device/group/bits.cuh"
#include "device/published/ouroboros/page_heap.cuh"
#include "device/simt/mutation.cuh"

namespace orchard::device::ouroboros {

template <queue_kind K>
class chunk_heap {
public:
    ORCHARD_INLINE explicit chunk_heap(const instance_view& v) : v_{&v} {}

    /// Returns a page of the class; null if there is neither a page nor a chunk. Any lanes, in any divergence; those
    /// that come together for one class share the atomics.
    ORCHARD_FN void* allocate(std::uint32_t page_class) const {
        bulk_semaphore& semaphore = words(page_class).pages;
        const simt::lane_mask group = simt::match(simt::converge(), reinterpret_cast<std::uintptr_t>(&semaphore));
        const bool has = wait_together(semaphore, group, v_->pages(page_class), [&] { return add_chunk(page_class); });
        std::uint32_t index = 0;
        serve_together(
            group, simt::ballot(group, has), [&](std::uint32_t lanes) { return find_pages(page_class, lanes); },
            [&](std::uint64_t chunk, std::uint32_t) { index = static_cast<std::uint32_t>(chunk); });
        if (!has) {
            return nullptr;
        }
        return v_->chunk_at(index) + (std::uint64_t{claim_bit(index, page_class)} << v_->page_log(page_class));
    }

    /// Frees the page at `p`, which lies in the instance. Does nothing if no page in use begins there. Any lane, alone.
    ORCHARD_FN void free(const void* p) const {
        const std::uint64_t offset = v_->offset_of(p);
        const auto index = static_cast<std::uint32_t>(offset >> v_->chunk_log);
        // Relaxed: a lane that has a page of the chunk is ordered behind the lane that set the state.
        const std::uint64_t s = state(index).template load<simt::order::relaxed>();
        const std::uint32_t c = chunk_state::page_class(s);
        const std::uint64_t within = offset & ((std::uint64_t{1} << v_->chunk_log) - 1);
        const auto page = static_cast<std::uint32_t>(within >> v_->page_log(c));
        if (chunk_state::role(s) != chunk_role::pages || within != std::uint64_t{page} << v_->page_log(c)) {
            return;
        }
        const std::uint64_t bit = std::uint64_t{1} << (page % 64);
        // Release: the accesses of the page's user. Pairs with `claim_bit`.
        if ((v_->bits_of(index)[page / 64].template fetch_or<simt::order::release>(bit) & bit) == 0) {
            count_freed(index, c);
        }
    }

    /// Gives the chunks to the pool all of whose pages are free, of all classes. Any lane, alone; other lanes may
    /// allocate and free meanwhile. Cost: a load for each chunk.
    ORCHARD_NOINLINE void sweep() const {
        for (std::uint32_t index = 0; index < v_->chunks; ++index) {
            give_if_full(index, state(index).template load<simt::order::relaxed>());
        }
    }

private:
    [[nodiscard]] ORCHARD_INLINE class_words& words(std::uint32_t page_class) const { return v_->classes[page_class]; }
    [[nodiscard]] ORCHARD_INLINE simt::device_word<std::uint64_t>& state(std::uint32_t index) const {
        return v_->headers[index].state;
    }
    ORCHARD_INLINE index_queue<decltype(storage_of<K>(instance_view(), 0))> queue(std::uint32_t page_class) const {
        return {words(page_class).queue, storage_of<K>(*v_, page_class), v_->chunks};
    }

    /// Adds a chunk to the class; false if there is none.
    ORCHARD_NOINLINE bool add_chunk(std::uint32_t page_class) const {
        chunk_pool pool(*v_);
        if (!pool.claim(0)) {
            // Relaxed: a hint. One lane sweeps for all.
            auto& left = v_->pool->left_full;
            if (left.template load<simt::order::relaxed>() == 0 ||
                left.template exchange<simt::order::relaxed>(0) == 0) {
                return false;
            }
            sweep();
            if (!pool.claim(0)) {
                return false;
            }
        }
        const std::uint32_t index = pool.take();
        const std::uint32_t pages = v_->pages(page_class);
        for (std::uint32_t w = 0; w * 64 < pages; ++w) {
            // Relaxed: the state, below, releases the bits.
            v_->bits_of(index)[w].template store<simt::order::relaxed>(pages >= 64 ? ~std::uint64_t{0}
                                                                                   : (std::uint64_t{1} << pages) - 1);
        }
        std::uint64_t s = state(index).template load<simt::order::relaxed>();
        // Release: the bits. Pairs with the claims of pages. Acquire: what a lane did that had the chunk in its hands.
        while (!state(index).template compare_exchange<simt::order::acq_rel>(
            s, chunk_state::pages(s, page_class, pages) | chunk_state::listed(page_class))) {
        }
        if ((s & chunk_state::listed(page_class)) == 0) {
            list(index, page_class);
        }
        words(page_class).pages.signal_chunk(pages);
        return true;
    }

    /// Returns a chunk of which the caller has claimed 1 to `most` pages; the semaphore has promised that these are
    /// free. If it finds none, another lane is moving a chunk from the queue or to it, and never waits for a page.
    ORCHARD_FN taken_together find_pages(std::uint32_t page_class, std::uint32_t most) const {
        auto& current = words(page_class).current;
        for (std::uint32_t nanoseconds = 100;; nanoseconds = nanoseconds < 2000 ? nanoseconds * 2 : nanoseconds) {
            // Acquire: what the lane knew that put the chunk there. Pairs with `list`.
            std::uint32_t found = current.template load<simt::order::acquire>();
            if (const std::uint32_t n = found == 0 ? 0 : claim_pages(found - 1, page_class, most); n != 0) {
                return {found - 1, n};
            }
            // Acquire: as above.
            if (found != 0 && !current.template compare_exchange<simt::order::acquire>(found, 0)) {
                continue;
            }
            if (found == 0) {
                found = queue(page_class).try_take();
            }
            if (found != 0) {
                decide(found - 1, page_class);
            } else {
                simt::pause(nanoseconds);
            }
        }
    }
    /// Claims up to `most` pages of the chunk, and returns their number; 0 if it has none, or is not of this class any
    /// more.
    ORCHARD_INLINE std::uint32_t claim_pages(std::uint32_t index, std::uint32_t page_class, std::uint32_t most) const {
        std::uint64_t s = state(index).template load<simt::order::relaxed>();
        while (chunk_state::serves(s, page_class) && chunk_state::free(s) != 0) {
            const auto free = static_cast<std::uint32_t>(chunk_state::free(s));
            const std::uint32_t n = free < most ? free : most;
            // Acquire: the bits of the chunk. Pairs with `count_freed` and `add_chunk`.
            if (state(index).template compare_exchange<simt::order::acquire>(s, s - n * chunk_state::one_free)) {
                return n;
            }
        }
        return 0;
    }
    /// Returns the page whose bit the caller takes. There are at least as many bits as lanes that have claimed pages.
    ORCHARD_INLINE std::uint32_t claim_bit(std::uint32_t index, std::uint32_t page_class) const {
        const std::uint32_t n = (v_->pages(page_class) + 63) / 64;
        // Lanes begin at different words, so that fewer of them try for the same bit.
        std::uint32_t w = static_cast<std::uint32_t>(simt::position().global_thread()) & (n - 1);
        for (;; w = (w + 1) & (n - 1)) {
            auto& word = v_->bits_of(index)[w];
            std::uint64_t bits = word.template load<simt::order::relaxed>();
            while (bits != 0) {
                const auto bit = static_cast<std::uint32_t>(simt::lowest_bit(bits));
                const std::uint64_t mask = std::uint64_t{1} << bit;
                // Acquire: the accesses of the page's last user. Pairs with the release in `free`.
                simt::mutation::weaken_next(simt::mutation::fault::chunk_bit);
                bits = word.template fetch_and<simt::order::acquire>(~mask);
                if ((bits & mask) != 0) {
                    return w * 64 + bit;
                }
            }
        }
    }

    /// Decides about a chunk that the caller has taken from the class's queue: it is listed again if it has pages for
    /// the class, and else is not listed any more.
    ORCHARD_INLINE void decide(std::uint32_t index, std::uint32_t page_class) const {
        std::uint64_t s = state(index).template load<simt::order::relaxed>();
        do {
            if (chunk_state::serves(s, page_class) && chunk_state::free(s) != 0) {
                list(index, page_class);
                return;
            }
            // Release: the next lane that lists the chunk finds the queue without it.
        } while (
            !state(index).template compare_exchange<simt::order::release>(s, s & ~chunk_state::listed(page_class)));
    }
    /// Makes the chunk the current one if there is none, or puts it into the queue, which has a place for each chunk.
    /// The caller has set `listed`, or has taken the chunk from there.
    ORCHARD_INLINE void list(std::uint32_t index, std::uint32_t page_class) const {
        std::uint32_t none = 0;
        // Release: the chunk's state and bits. Pairs with `find_pages`.
        if (!words(page_class).current.template compare_exchange<simt::order::release>(none, index + 1)) {
            (void)queue(page_class).try_put(index + 1);
        }
    }

    /// Counts a page whose bit was set.
    ORCHARD_FN void count_freed(std::uint32_t index, std::uint32_t page_class) const {
        const std::uint64_t listed = chunk_state::listed(page_class);
        const std::uint32_t pages = v_->pages(page_class);
        std::uint64_t s = state(index).template load<simt::order::relaxed>();
        if (pages == 1) {
            // No other lane can claim the only page. Acquire and release: as below.
            while (!state(index).template compare_exchange<simt::order::acq_rel>(
                s, chunk_state::of(s, chunk_role::none))) {
            }
            chunk_pool(*v_).give(index);
            return;
        }
        // Release: the bit. Pairs with `claim_pages`. Acquire: a lane that lists the chunk finds the queue as `decide`
        // left it.
        while (!state(index).template compare_exchange<simt::order::acq_rel>(s, (s + chunk_state::one_free) | listed)) {
        }
        if ((s & listed) == 0 || simt::mutation::is(simt::mutation::fault::chunk_listed)) {
            list(index, page_class);
        }
        words(page_class).pages.signal(1);
        // The last lane that signals a page of the chunk finds that all pages are free: the signals are one order of
        // atomics with acquire and release. Another chunk's lane, whose last page is counted and not yet signalled, may
        // have taken these signals: then the chunk stays with its class, as `give_if_full` notes.
        give_if_full(index, state(index).template load<simt::order::relaxed>());
    }

    /// Gives the chunk, whose state was `s`, to the pool if all of its pages are free and not promised to lanes.
    ORCHARD_FN void give_if_full(std::uint32_t index, std::uint64_t s) const {
        const std::uint32_t c = chunk_state::page_class(s);
        const std::uint32_t pages = v_->pages(c);
        if (chunk_state::role(s) != chunk_role::pages || chunk_state::free(s) != pages) {
            return;
        }
        if (!words(c).pages.try_take(pages) && !simt::mutation::is(simt::mutation::fault::chunk_promised)) {
            // Lanes to which pages are promised may find them elsewhere; no lane would look at this chunk again.
            v_->pool->left_full.template store<simt::order::relaxed>(1);
            return;
        }
        while (chunk_state::serves(s, c) && chunk_state::free(s) == pages) {
            // Acquire: the accesses of the pages' users, which their frees have released. Release: so that lanes that
            // find the chunk listed see what it is.
            if (state(index).template compare_exchange<simt::order::acq_rel>(s, chunk_state::of(s, chunk_role::none))) {
                chunk_pool(*v_).give(index);
                return;
            }
        }
        words(c).pages.signal(pages);
    }

    const instance_view* v_;
};

}  // namespace orchard::device::ouroboros
