// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The memory of a hash map: where its buckets lie, and its overflow blocks. All of it comes from the heap, and stays
/// with the map until the map is cleared, so that a lane may read a node that other lanes have taken out of a chain.
///
/// Buckets lie in pieces. Three pieces have the first 4,096 buckets (`log_piece`); all later ones have 4,096, in 512
/// KiB, and directories of doubling length name them. Few sizes take few of the heap's segments:
///
///     buckets   0 .. 31 | 32 .. 511 | 512 .. 4095 | 4096 .. 8191 | 8192 .. 12287 | 12288 ...
///     bytes      4 KiB  |   60 KiB  |   448 KiB   |   512 KiB    |    512 KiB    |
///     root      [0]       [1]         [2]           [3]: 1 entry   [4]: 2 entries ------
///
/// `ready` counts the buckets whose pieces are there. It is published in the order of the buckets: a lane that acquires
/// it may read any bucket before it by relaxed loads of `root` and of directories.
///
/// `asked` counts the buckets whose pieces are there or are being made. A lane moves it over one piece by a
/// compare-and-swap, and then makes this piece. So one lane asks the heap for a piece, several pieces are made at the
/// same time, and all other lanes see by one load that nothing is to be done.

#include <cstdint>
#include <type_traits>

#include "device/containers/map_slots.cuh"
#include "device/group/leader.cuh"
#include "device/heap_ref.cuh"

namespace orchard {

/// The words of a hash map, in device memory; zero bytes are a map that has not been begun. Kernels alone write it.
struct hash_map_state {
    static constexpr std::uint32_t max_roots = 52;
    static constexpr std::uint32_t free_lists = 512;
    static constexpr std::uint64_t none = 0;
    static constexpr std::uint64_t in_making = 1;

    // Every call reads `buckets` and `ready`, and every group of lanes that adds keys changes `buckets` and `keys`. One
    // slice of the L2 cache serves all accesses to a line, so that each of these words has a line of its own.
    simt::device_word<std::uint64_t> buckets;  ///< that are due: they are there, or a lane is about to make them
    std::uint64_t apart0[15];
    simt::device_word<std::uint64_t> ready;     ///< buckets that have memory
    simt::device_word<std::uint64_t> asked;     ///< buckets for which a lane has asked for memory
    simt::device_word<std::uint64_t> retry_at;  ///< the time before which no piece is asked for; 0: any time
    simt::device_word<std::uint64_t> blocks;    ///< overflow blocks taken from the heap
    std::uint64_t apart1[12];
    simt::device_word<std::uint64_t> keys;  ///< that are there, or that a call is about to add
    std::uint64_t apart2[15];
    simt::device_word<std::uint64_t> root[max_roots];  ///< addresses; `none`, or `in_making`
    std::uint64_t apart3[12];

    /// A list of free overflow blocks, alone in its sector of 32 B. The head is the first block's address with the
    /// number of changes in the bits that addresses do not have: a lane that was late does not take a block that came
    /// back.
    struct list {
        simt::device_word<std::uint64_t> head;
        std::uint64_t apart[3];
    };
    list free[free_lists];
};
static_assert(sizeof(hash_map_state) % 128 == 0);

}  // namespace orchard

namespace orchard::device {

/// The sizes of a map's parts. Tests have maps with smaller ones.
template <std::uint32_t NodeBytes>
struct map_shape {
    static constexpr std::uint32_t most_slots = map_header::max_slots;
    static constexpr std::uint32_t log_first = 5;  ///< logarithm of the buckets of an empty map
    static constexpr std::uint32_t log_piece = 19 - simt::highest_bit(NodeBytes);  ///< 512 KiB: the largest page
    static constexpr std::uint64_t pieces_ahead = 32;  ///< that are made before they are needed, at most
};

/// The memory of one map. Trivially copyable, and small: functions that are not inlined take it by value. A copy of the
/// heap's view, which is large, would lie in the memory of each thread.
template <class Shape, std::uint32_t NodeBytes>
class map_memory {
    using state_t = hash_map_state;
    static constexpr std::uint32_t log_first = Shape::log_first;
    static constexpr std::uint32_t log_piece = Shape::log_piece;
    static constexpr std::uint32_t log_middle = log_first + (log_piece - log_first + 1) / 2;
    static constexpr std::uint32_t first_directory = 3;  ///< its index in `root`
    static_assert(log_first >= 1 && log_piece >= log_first);

public:
    map_memory() = default;
    map_memory(const heap_ref& heap, hash_map_state* state) : view_{heap.view().self}, state_{state} {}

    /// Returns the heap: its view lies in device memory, and a copy of it would lie in the memory of each thread, or in
    /// thirty registers. A `heap_ref` is a view and nothing else.
    [[nodiscard]] ORCHARD_INLINE const heap_ref& heap() const {
        static_assert(sizeof(heap_ref) == sizeof(heap_view) && std::is_standard_layout_v<heap_ref>);
        return *reinterpret_cast<const heap_ref*>(view_);
    }
    [[nodiscard]] ORCHARD_INLINE hash_map_state& state() const { return *state_; }

    /// Returns bucket `b`, which is less than a value of `ready` that the caller has acquired.
    [[nodiscard]] ORCHARD_INLINE map_node* bucket(std::uint64_t b) const {
        if (b >> log_piece == 0) {
            const std::uint64_t base = state_->root[root_of(b)].template load<simt::order::relaxed>();
            return map_node::at(base + (b - first_of_piece(b)) * NodeBytes);
        }
        const std::uint64_t base = entry(b)->template load<simt::order::relaxed>();
        return map_node::at(base + (b & (piece_buckets - 1)) * NodeBytes);
    }

    /// Allocates the first piece of an empty map. One thread calls it, before all other calls. Returns false without
    /// memory.
    ORCHARD_FN bool begin() const {
        const new_piece first = take_piece(0);
        if (first.address == 0) {
            return false;
        }
        for (std::uint32_t b = 0; b >> log_first == 0; ++b) {
            map_node* const n = map_node::at(first.address + std::uint64_t{b} * NodeBytes);
            n->next.template store<simt::order::relaxed>(0);
            n->header.template store<simt::order::relaxed>(map_header::make(log_first, 0));
        }
        state_->buckets.template store<simt::order::relaxed>(std::uint64_t{1} << log_first);
        state_->asked.template store<simt::order::relaxed>(std::uint64_t{1} << log_first);
        open(first);
        return true;
    }

    /// Asks the heap for the next piece if buckets up to `wanted`, and a quarter as many more that are held ahead, have
    /// not been asked for: the heap takes tens of microseconds for a piece, in which many keys come. Takes one piece at
    /// most; other groups take the others. It waits for no lane but one that makes a directory.
    /// @param group  the lanes that call it together, with the same `wanted`
    ORCHARD_FN void ask(simt::lane_mask group, std::uint64_t wanted) const {
        new_piece mine;
        if (device::is_leader(group)) {
            mine = claim(wanted);
        }
        const std::uint64_t address = device::from_leader(group, mine.address);
        if (address == 0) {
            return;
        }
        const std::uint64_t count = device::from_leader(group, mine.count);
        const auto lanes = static_cast<std::uint64_t>(simt::popcount(group));
        for (auto i = static_cast<std::uint64_t>(simt::rank_in(group)); i < count; i += lanes) {
            map_node::at(address + i * NodeBytes)->header.template store<simt::order::relaxed>(0);
        }
        simt::sync(group);
        if (device::is_leader(group)) {
            open(mine);
        }
    }
    /// Returns whether there is something to do for `ask`, or to wait for, for buckets up to `wanted`.
    [[nodiscard]] ORCHARD_FN bool lacks(std::uint64_t wanted) const {
        const std::uint64_t asked = state_->asked.template load<simt::order::relaxed>();
        return asked < with_those_ahead(wanted) || state_->ready.template load<simt::order::relaxed>() < wanted;
    }
    /// Returns whether buckets up to `wanted` are not ready, but will be, unless the heap has no memory for them.
    [[nodiscard]] ORCHARD_FN bool is_coming(std::uint64_t wanted) const {
        return state_->ready.template load<simt::order::acquire>() < wanted && publish() < wanted && !is_too_soon();
    }

    /// Returns an overflow block, whose contents are unspecified, or null without memory.
    /// @param bucket  whose free list to look at first
    ORCHARD_INLINE map_node* take_block(std::uint64_t bucket) const { return take_block_by(*this, bucket); }
    /// Returns a block of the free list of a bucket; null if it has none.
    [[nodiscard]] ORCHARD_FN map_node* take_free(std::uint64_t bucket) const { return pop(list_of(bucket)); }
    /// Puts two blocks of the heap into the free list of a bucket. Returns false without memory, and shortly after a
    /// failure: for calls that can do without. Cost: two calls of `malloc`.
    ORCHARD_INLINE bool stock(std::uint64_t bucket) const { return stock_by(*this, bucket); }
    /// Puts a block into the free list of a bucket.
    ORCHARD_INLINE void put_block(std::uint64_t bucket, map_node* block) const { put_block_by(*this, bucket, block); }

    /// Frees the pieces of an empty map, all directories, and the free blocks: the threads of one warp, which have the
    /// numbers 0 to `threads` - 1, while nobody else uses the map. Afterwards, one thread calls `forget`.
    ORCHARD_FN void free_all(std::uint32_t thread, std::uint32_t threads) const {
        for (std::uint32_t i = thread; i < state_t::free_lists; i += threads) {
            for (map_node* n = pop(i); n != nullptr; n = pop(i)) {
                heap().free(n);
            }
        }
        for (std::uint32_t h = first_directory; h < state_t::max_roots; ++h) {
            const std::uint64_t entries = state_->root[h].template load<simt::order::relaxed>();
            for (std::uint64_t i = thread; entries > state_t::in_making && i >> (h - first_directory) == 0;
                 i += threads) {
                heap().free(pointer(directory(entries)[i].template load<simt::order::relaxed>()));
            }
        }
    }
    ORCHARD_FN void forget() const {
        for (auto& word : state_->root) {
            heap().free(pointer(word.template load<simt::order::relaxed>()));
            word.template store<simt::order::relaxed>(0);
        }
        state_->buckets.template store<simt::order::relaxed>(0);
        state_->ready.template store<simt::order::relaxed>(0);
        state_->asked.template store<simt::order::relaxed>(0);
        state_->retry_at.template store<simt::order::relaxed>(0);
        state_->blocks.template store<simt::order::relaxed>(0);
        state_->keys.template store<simt::order::relaxed>(0);
    }

private:
    static constexpr std::uint64_t piece_buckets = std::uint64_t{1} << log_piece;
    using word_t = simt::device_word<std::uint64_t>;

    ORCHARD_INLINE static void* pointer(std::uint64_t word) {
        return word > state_t::in_making ? reinterpret_cast<void*>(word) : nullptr;
    }
    ORCHARD_INLINE static word_t* directory(std::uint64_t address) { return simt::global_pointer<word_t>(address); }

    // The functions above that are not inlined.
    ORCHARD_NOINLINE static map_node* take_block_by(map_memory m, std::uint64_t bucket) {
        const std::uint32_t list = m.list_of(bucket);
        map_node* taken = m.pop(list);
        if (taken == nullptr) {
            taken = m.ask_for_block();
        }
        for (std::uint32_t i = 1; taken == nullptr && i < state_t::free_lists; ++i) {
            taken = m.pop(list + i);
        }
        return taken;
    }
    ORCHARD_NOINLINE static bool stock_by(map_memory m, std::uint64_t bucket) {
        bool done = !m.is_too_soon();
        for (int i = 0; i < 2 && done; ++i) {
            map_node* const block = m.ask_for_block();
            done = block != nullptr;
            if (done) {
                m.put_block(bucket, block);
            }
        }
        return done;
    }
    ORCHARD_NOINLINE static void put_block_by(map_memory m, std::uint64_t bucket, map_node* block) {
        auto& head = m.state_->free[m.list_of(bucket)].head;
        std::uint64_t found = head.template load<simt::order::relaxed>();
        do {
            block->next.template store<simt::order::relaxed>(address_of(found));
            // Releases `next` to the lane that pops the block.
        } while (!head.template compare_exchange<simt::order::acq_rel>(found, tagged(block->address(), found)));
    }

    /// Returns the index of the free list of a bucket. The map uses one list for every 32 buckets that it has, so that
    /// in a small map, too, blocks that are free are found again.
    [[nodiscard]] ORCHARD_FN std::uint32_t list_of(std::uint64_t bucket) const {
        const std::uint64_t lists = state_->buckets.template load<simt::order::relaxed>() / 32;
        if (lists >= state_t::free_lists) {
            return static_cast<std::uint32_t>(bucket) % state_t::free_lists;
        }
        const auto few = static_cast<std::uint32_t>(lists);
        return few == 0 ? 0 : static_cast<std::uint32_t>(bucket) & ((1u << simt::highest_bit(few)) - 1);
    }

    /// Returns the word that names the piece of bucket `b`, which no directory or a directory that is there has.
    [[nodiscard]] ORCHARD_INLINE word_t* entry(std::uint64_t b) const {
        const auto piece = static_cast<std::uint32_t>(b >> log_piece);
        const auto high = static_cast<std::uint32_t>(simt::highest_bit(piece));
        const std::uint64_t entries = state_->root[first_directory + high].template load<simt::order::relaxed>();
        return directory(entries) + (piece - (1u << high));
    }
    /// Returns the index in `root` of the piece of bucket `b`, which no directory has.
    ORCHARD_INLINE static std::uint32_t root_of(std::uint64_t b) {
        return b >> log_first == 0 ? 0 : b >> log_middle == 0 ? 1 : 2;
    }
    /// Returns the first bucket of the piece of bucket `b`, and the first one behind it.
    ORCHARD_INLINE static std::uint64_t first_of_piece(std::uint64_t b) {
        constexpr std::uint64_t one = 1;
        return b >> log_first == 0    ? 0
               : b >> log_middle == 0 ? one << log_first
               : b >> log_piece == 0  ? one << log_middle
                                      : b >> log_piece << log_piece;
    }
    ORCHARD_INLINE static std::uint64_t buckets_of_piece(std::uint64_t b) {
        return end_of_piece(b) - first_of_piece(b);
    }
    ORCHARD_INLINE static std::uint64_t end_of_piece(std::uint64_t b) {
        constexpr std::uint64_t one = 1;
        return b >> log_first == 0    ? one << log_first
               : b >> log_middle == 0 ? one << log_middle
                                      : ((b >> log_piece) + 1) << log_piece;
    }

    /// Returns the word that names the piece of bucket `b`, after making the directory that has it, or waiting for the
    /// lane that makes it; null if there is no memory for it.
    ORCHARD_FN word_t* word_of(std::uint64_t b) const {
        if (b >> log_piece == 0) {
            return &state_->root[root_of(b)];
        }
        const auto high = static_cast<std::uint32_t>(simt::highest_bit(static_cast<std::uint32_t>(b >> log_piece)));
        if (first_directory + high >= state_t::max_roots) {
            return nullptr;
        }
        auto& word = state_->root[first_directory + high];
        std::uint64_t found = word.template load<simt::order::acquire>();
        if (found == state_t::none && word.template compare_exchange<simt::order::acquire>(found, state_t::in_making)) {
            // Of the size of the first piece at least, whose size class is in use anyway.
            constexpr std::uint64_t least = std::uint64_t{NodeBytes} << log_first;
            const std::uint64_t bytes = sizeof(word_t) << high;
            auto* const entries = static_cast<word_t*>(take(bytes > least ? bytes : least));
            for (std::uint64_t i = 0; entries != nullptr && i >> high == 0; ++i) {
                entries[i].template store<simt::order::relaxed>(state_t::none);
            }
            found = reinterpret_cast<std::uint64_t>(entries);
            word.template store<simt::order::release>(found);  // null is `none`
        }
        while (found == state_t::in_making) {
            simt::pause(500);
            found = word.template load<simt::order::acquire>();
        }
        return found != state_t::none ? directory(found) + (b >> log_piece) - (std::uint64_t{1} << high) : nullptr;
    }

    /// A piece that a lane has allocated, and that no other lane sees yet. Address 0: none.
    struct new_piece {
        word_t* word = nullptr;  ///< names the piece; null: there is no memory for it or for its directory
        std::uint64_t address = 0;
        std::uint64_t count = 0;  ///< buckets
    };
    ORCHARD_INLINE static std::uint64_t with_those_ahead(std::uint64_t wanted) {
        constexpr std::uint64_t most = Shape::pieces_ahead * piece_buckets;
        return wanted + (wanted / 4 < most ? wanted / 4 : most);
    }
    /// Moves `asked` over the next piece and returns this piece, if it is to be made now and no other lane is quicker.
    [[nodiscard]] ORCHARD_FN new_piece claim(std::uint64_t wanted) const {
        wanted = with_those_ahead(wanted);
        std::uint64_t first = state_->asked.template load<simt::order::relaxed>();
        if (first >= wanted || is_too_soon() ||
            !state_->asked.template compare_exchange<simt::order::relaxed>(first, end_of_piece(first))) {
            return {};
        }
        const new_piece made = take_piece(first);
        if (made.word == nullptr) {
            state_->asked.template lower<simt::order::relaxed>(first);
        }
        return made;
    }
    /// Returns the piece of bucket `b`; none if it is there.
    [[nodiscard]] ORCHARD_INLINE new_piece take_piece(std::uint64_t b) const { return take_piece_by(*this, b); }
    ORCHARD_NOINLINE static new_piece take_piece_by(map_memory m, std::uint64_t b) {
        new_piece made;
        made.word = m.word_of(b);
        std::uint64_t found = state_t::none;
        if (made.word != nullptr &&
            made.word->template compare_exchange<simt::order::relaxed>(found, state_t::in_making)) {
            made.address = reinterpret_cast<std::uint64_t>(m.take(buckets_of_piece(b) * NodeBytes));
            made.count = buckets_of_piece(b);
            if (made.address == 0) {
                made.word->template store<simt::order::relaxed>(state_t::none);
                made.word = nullptr;
            }
        }
        if (made.word == nullptr) {
            m.note(false);
        }
        return made;
    }
    /// Lets other lanes see a piece, whose headers have been set.
    ORCHARD_FN void open(const new_piece& made) const {
        note(true);
        // Releases the headers to the lane that publishes the piece.
        made.word->template store<simt::order::release>(made.address);
        (void)publish();
    }

    /// Moves `ready` over all pieces that are there, and returns it. Two lanes that make neighbouring pieces may each
    /// miss the other's; the next lane that lacks buckets then moves `ready`.
    ORCHARD_FN std::uint64_t publish() const {
        std::uint64_t ready = state_->ready.template load<simt::order::acquire>();
        while (is_there(ready)) {
            const std::uint64_t end = end_of_piece(ready);
            // Releases the piece, which `is_there` has acquired; acquires what another lane has published.
            if (state_->ready.template compare_exchange<simt::order::acq_rel>(ready, end)) {
                ready = end;
            }
        }
        return ready;
    }
    [[nodiscard]] ORCHARD_FN bool is_there(std::uint64_t b) const {
        const word_t* word = nullptr;
        if (b >> log_piece == 0) {
            word = &state_->root[root_of(b)];
        } else {
            const auto piece = static_cast<std::uint32_t>(b >> log_piece);
            const auto high = static_cast<std::uint32_t>(simt::highest_bit(piece));
            if (first_directory + high >= state_t::max_roots) {
                return false;
            }
            const std::uint64_t entries = state_->root[first_directory + high].template load<simt::order::acquire>();
            if (entries <= state_t::in_making) {
                return false;
            }
            word = directory(entries) + (piece - (1u << high));
        }
        return word->template load<simt::order::acquire>() > state_t::in_making;
    }

    /// Returns memory of the heap, or null. Not inlined: `malloc` has a thousand instructions.
    [[nodiscard]] ORCHARD_INLINE void* take(std::uint64_t bytes) const { return take_by(*this, bytes); }
    ORCHARD_NOINLINE static void* take_by(map_memory m, std::uint64_t bytes) { return m.heap().malloc(bytes); }

    [[nodiscard]] ORCHARD_FN map_node* ask_for_block() const {
        auto* const block = static_cast<map_node*>(take(NodeBytes));
        if (block != nullptr) {
            (void)state_->blocks.template fetch_add<simt::order::relaxed>(1);
        } else {
            note(false);
        }
        return block;
    }

    /// After a failure no lane asks for a piece for a while, nor waits for one: each would wait for the host.
    ORCHARD_FN void note(bool found) const {
        constexpr std::uint64_t patience_ns = 5'000'000;
        state_->retry_at.template store<simt::order::relaxed>(found ? 0 : simt::clock_ns() + patience_ns);
    }
    [[nodiscard]] ORCHARD_FN bool is_too_soon() const {
        const std::uint64_t at = state_->retry_at.template load<simt::order::relaxed>();
        return at != 0 && simt::clock_ns() < at;
    }

    // Addresses of nodes are multiples of 128 B and have 48 bits, so that 23 bits are left for the changes.
    ORCHARD_INLINE static std::uint64_t address_of(std::uint64_t head) { return head & 0x0000ffffffffff80u; }
    ORCHARD_INLINE static std::uint64_t tagged(std::uint64_t address, std::uint64_t old_head) {
        const std::uint64_t changes = ((old_head >> 41 & 0x7fff80u) | (old_head & 0x7fu)) + 1;
        return address | (changes & 0x7fff80u) << 41 | (changes & 0x7fu);
    }
    ORCHARD_FN map_node* pop(std::uint32_t list) const {
        auto& head = state_->free[list % state_t::free_lists].head;
        std::uint64_t found = head.template load<simt::order::acquire>();
        while (address_of(found) != 0) {
            map_node* const first = map_node::at(address_of(found));
            // Another lane may have taken `first`, and changed this word; then the head has changed, too.
            const std::uint64_t next = first->next.template load<simt::order::relaxed>();
            if (head.template compare_exchange<simt::order::acq_rel>(found, tagged(next, found))) {
                return first;
            }
        }
        return nullptr;
    }

    const heap_view* view_ = nullptr;
    hash_map_state* state_ = nullptr;
};

}  // namespace orchard::device
