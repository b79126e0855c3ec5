// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The words of a graph in memory: the table of its vertices, and the runs that hold their edges.
///
/// A vertex is a record of 16 B. Its edges lie in one block of the heap, the run, sorted by target and without gaps:
///
///     record     | lock | degree |        run         |          a run of a graph with properties
///                  4 B     4 B     8 B: address, size      | targets, 4 B each ... | properties ... |
///                                   |                        0      capacity - 1     0  capacity - 1
///                                   +----------------------> ^
///
/// Records lie in segments of 4,096, which are blocks of the heap, too, made when one of their vertices gets its first
/// edge. They never move. Arrays of their addresses hang in `levels`, each twice as long as the one before:
///
///     level           0              1               2
///     segments     | 0 .. 63 | 64 .. 191 | 192 .. 447 | ...
///
/// Rows in blocks of growing sizes, and batches that are sorted before they are merged, are those of Hornet (Busato,
/// Green, Bombieri, Bader: HPEC 2018).

#include <cstdint>
#include <type_traits>

#include "device/heap_ref.cuh"
#include "device/simt/atomic.cuh"
#include "device/simt/lane.cuh"
#include "uvm/geometry/size_classes.hpp"

namespace orchard {

/// The property of an edge that has none.
struct no_property {};

namespace device {

/// The record of a vertex; all zero is a vertex without edges.
struct graph_vertex {
    /// Bit 0: a call changes the row. The others: the number of the last snapshot that has copied the record since the
    /// run was made; 0 if none has.
    simt::device_word<std::uint32_t> lock;
    simt::plain<std::uint32_t> degree;
    simt::plain<std::uint64_t> run;  ///< `graph_run`; 0 if there are no edges
};
static_assert(sizeof(graph_vertex) == 16);

/// The word of a run: its address and its size, which is a page class of the heap, or continues their row.
///
///     bit    63 ... 48     47 ... 0
///            size class    address / 16
struct graph_run {
    static constexpr std::uint32_t address_bits = 48;

    /// Returns the class of the smallest runs of at least `bytes` > 0 bytes: that of `class_of`, beyond its end also.
    [[nodiscard]] ORCHARD_FN static std::uint32_t class_for(std::uint64_t bytes) {
        if (bytes <= largest_page_bytes) {
            return class_of(static_cast<std::uint32_t>(bytes));
        }
        const std::uint64_t last = bytes - 1;
        const auto exponent =
            static_cast<std::uint32_t>(simt::highest_bit(static_cast<std::uint32_t>(last >> 16)) + 16);
        return 4 + (exponent - 6) * 4 + static_cast<std::uint32_t>(last >> (exponent - 2) & 3);
    }
    /// Returns the bytes of the runs of class `c`.
    [[nodiscard]] ORCHARD_FN static std::uint64_t bytes_of(std::uint32_t c) {
        return c < class_count ? class_bytes(c) : std::uint64_t{5 + (c & 3)} << (c / 4 + 3);
    }
    [[nodiscard]] ORCHARD_FN static std::uint64_t pack(const void* address, std::uint32_t size_class) {
        return std::uint64_t{size_class} << address_bits | reinterpret_cast<std::uint64_t>(address) >> 4;
    }
    [[nodiscard]] ORCHARD_FN static std::uint32_t class_of_run(std::uint64_t run) {
        return static_cast<std::uint32_t>(run >> address_bits);
    }
    [[nodiscard]] ORCHARD_FN static std::uint64_t bytes(std::uint64_t run) {
        return run == 0 ? 0 : bytes_of(class_of_run(run));
    }
    [[nodiscard]] ORCHARD_FN static void* address(std::uint64_t run) {
        return simt::global_pointer<void>((run & ((std::uint64_t{1} << address_bits) - 1)) << 4);
    }
};

/// The most edges of a row, 2^32 - 8,192. Threads move the edges of a row in rounds of up to 8,192: 8 for each thread
/// of a block, which has up to 1,024. A round begins at an edge, or at the row's end, so that no index of an edge goes
/// beyond 32 bits.
inline constexpr std::uint32_t graph_max_degree = 0xffffe000u;

/// How the edges of one vertex lie in its run.
template <class Property>
struct graph_layout {
    static constexpr bool has_property = !std::is_same_v<Property, no_property>;
    static constexpr std::uint64_t property_bytes = has_property ? sizeof(Property) : 0;
    /// Bytes that the alignment of the properties may cost.
    static constexpr std::uint64_t spare = has_property && alignof(Property) > 4 ? alignof(Property) - 4 : 0;

    static_assert(std::is_trivially_copyable_v<Property>, "properties are copied as bytes");
    static_assert(alignof(Property) <= 16, "properties are aligned to at most 16 B, as blocks of the heap are");

    /// Returns how many edges fit into a run of `bytes` bytes, at most `graph_max_degree`; 0 for none.
    [[nodiscard]] ORCHARD_FN static std::uint32_t capacity(std::uint64_t bytes) {
        const std::uint64_t n = bytes == 0 ? 0 : (bytes - spare) / (4 + property_bytes);
        return n < graph_max_degree ? static_cast<std::uint32_t>(n) : graph_max_degree;
    }
    /// Returns the class of a run for `degree` edges: the smallest with 3 or 4 times a power of two of bytes, every
    /// second class of the heap. Runs of fewer sizes share slabs, and rows that grow leave fewer of these behind; a row
    /// to which one edge after the other is appended moves each edge about three times.
    [[nodiscard]] ORCHARD_FN static std::uint32_t class_for(std::uint64_t degree) {
        const std::uint32_t c = graph_run::class_for(degree * (4 + property_bytes) + spare);
        return c < 4 ? c : c | 1;  // 16, 32, 48, 64, 96, 128, 192, 256, ...
    }
    [[nodiscard]] ORCHARD_FN static simt::plain<std::uint32_t>* targets(std::uint64_t run) {
        return static_cast<simt::plain<std::uint32_t>*>(graph_run::address(run));
    }
    [[nodiscard]] ORCHARD_FN static Property* properties(std::uint64_t run) {
        std::uint64_t at = std::uint64_t{capacity(graph_run::bytes(run))} * 4;
        at = (at + alignof(Property) - 1) / alignof(Property) * alignof(Property);
        return reinterpret_cast<Property*>(static_cast<char*>(graph_run::address(run)) + at);
    }
};

/// Returns the memory of a graph's table: the heap of its rows, or `heap.tables()` if the type has such a function.
///
/// `Heap` is `heap_ref`, or a view with `malloc(bytes)` and `free(p)`, which serve any threads in any divergence;
/// blocks are aligned to 16 B, and null is a shortage. `tables()` returns such a view, too, for memory that has no
/// blocks of `graph_table::bytes_of_segment`.
template <class Heap>
[[nodiscard]] ORCHARD_INLINE decltype(auto) memory_of_tables(const Heap& heap) {
    if constexpr (requires { heap.tables(); }) {
        return heap.tables();
    } else {
        return (heap);
    }
}

/// The table of a graph's vertices; all zero is an empty one.
struct graph_table {
    static constexpr std::uint32_t log_segment = 12;                         ///< vertices of a segment
    static constexpr std::uint32_t log_first = 6;                            ///< segments of level 0
    static constexpr std::uint32_t max_levels = 15;                          ///< enough for 2^32 vertices
    static constexpr std::uint32_t max_segments = 1u << (32 - log_segment);  ///< the last level has room for more
    static constexpr std::uint64_t none = 0;
    static constexpr std::uint64_t in_making = 1;
    using word = simt::device_word<std::uint64_t>;

    word levels[max_levels];                    ///< addresses of arrays of addresses; `none`, or `in_making`
    simt::device_word<std::uint32_t> vertices;  ///< one more than the greatest vertex that was named so far

    /// Returns the level in which segment `s` is, and the first segment of level `k`.
    [[nodiscard]] ORCHARD_INLINE static std::uint32_t level_of(std::uint32_t s) {
        return static_cast<std::uint32_t>(simt::highest_bit((s >> log_first) + 1));
    }
    [[nodiscard]] ORCHARD_INLINE static std::uint32_t first_of(std::uint32_t k) { return ((1u << k) - 1) << log_first; }
    /// Returns one more than the last segment of level `k` that a vertex can lie in.
    [[nodiscard]] ORCHARD_INLINE static std::uint32_t end_of(std::uint32_t k) {
        return first_of(k + 1) < max_segments ? first_of(k + 1) : max_segments;
    }
    /// Returns the bytes of level `k`, and of a segment.
    [[nodiscard]] ORCHARD_INLINE static std::uint64_t level_bytes(std::uint32_t k) {
        return (std::uint64_t{8} << log_first) << k;
    }
    static constexpr std::uint64_t bytes_of_segment = sizeof(graph_vertex) << log_segment;

    /// Returns the word of segment `s`; null if its level is not there. The second one acquires the level.
    [[nodiscard]] ORCHARD_INLINE word* segment_word(std::uint32_t s) const {
        return in_level(levels[level_of(s)].load_cached(), s);
    }
    [[nodiscard]] ORCHARD_INLINE word* acquire_segment_word(std::uint32_t s) const {
        return in_level(levels[level_of(s)].load<simt::order::acquire>(), s);
    }

    /// Returns the record of vertex `u`; null if its segment is not there. For kernels beside which no call adds
    /// segments. Cost: two loads, which the L1 cache may answer.
    [[nodiscard]] ORCHARD_INLINE graph_vertex* find(std::uint32_t u) const {
        const word* const w = segment_word(u >> log_segment);
        return w == nullptr ? nullptr : in_segment(w->load_cached(), u);
    }
    /// The same beside calls that add segments.
    [[nodiscard]] ORCHARD_INLINE graph_vertex* acquire(std::uint32_t u) const {
        const word* const w = acquire_segment_word(u >> log_segment);
        return w == nullptr ? nullptr : in_segment(w->load<simt::order::acquire>(), u);
    }

    /// Returns the record of vertex `u`, whose segment is made if it is not there; null if the heap has no memory. Any
    /// thread, by itself. Cost: two loads; to make a segment, `malloc` and 8,192 stores.
    template <class Heap>
    [[nodiscard]] ORCHARD_FN graph_vertex* make(const Heap& heap, std::uint32_t u) {
        const std::uint32_t s = u >> log_segment;
        graph_vertex* const found = acquire(u);
        if (found != nullptr) {
            return found;
        }
        const std::uint32_t k = level_of(s);
        if (!make_block<word>(heap, levels[k], 1u << (log_first + k))) {
            return nullptr;
        }
        word* const w = acquire_segment_word(s);
        return w != nullptr && make_block<graph_vertex>(heap, *w, 1u << log_segment) ? acquire(u) : nullptr;
    }

private:
    [[nodiscard]] ORCHARD_INLINE static word* in_level(std::uint64_t level, std::uint32_t s) {
        return level <= in_making ? nullptr : simt::global_pointer<word>(level) + (s - first_of(level_of(s)));
    }
    [[nodiscard]] ORCHARD_INLINE static graph_vertex* in_segment(std::uint64_t segment, std::uint32_t u) {
        return segment <= in_making ? nullptr
                                    : simt::global_pointer<graph_vertex>(segment) + (u & ((1u << log_segment) - 1));
    }
    ORCHARD_INLINE static void clear(word& w) { w.store<simt::order::relaxed>(none); }
    ORCHARD_INLINE static void clear(graph_vertex& v) {
        v.lock.store<simt::order::relaxed>(0);
        v.degree.set(0);
        v.run.set(0);
    }
    /// Makes `at` the address of a block of `count` zero objects, unless it is one already. Returns false without
    /// memory. A thread that finds another one at work waits for it, and shares its failure.
    template <class T, class Heap>
    ORCHARD_FN static bool make_block(const Heap& heap, word& at, std::uint32_t count) {
        std::uint64_t found = at.load<simt::order::acquire>();
        if (found == none && at.compare_exchange<simt::order::acquire>(found, in_making)) {
            auto* const p = static_cast<T*>(memory_of_tables(heap).malloc(std::uint64_t{count} * sizeof(T)));
            for (std::uint32_t i = 0; p != nullptr && i < count; ++i) {
                clear(p[i]);
            }
            // Pairs with the acquiring loads; null is `none`.
            at.store<simt::order::release>(reinterpret_cast<std::uint64_t>(p));
            return p != nullptr;
        }
        while (found == in_making) {
            simt::pause(500);
            found = at.load<simt::order::acquire>();
        }
        return found != none;
    }
};

/// A run that a snapshot may still read, in a list of such runs. Its words have the size of a run's, since blocks of
/// the heap are one or the other in turn, and a simulation knows each word by its size.
struct graph_retired_run {
    /// `next`: its distance from the heap's base, and 16; 0 if there is none. `run`: less the base / 16. `snapshot`:
    /// the last one that has the run. The base of another allocator is 0.
    enum field : int { next, run, snapshot };
    simt::plain<std::uint32_t> words[6];

    [[nodiscard]] ORCHARD_INLINE std::uint64_t get(field f) const {
        return std::uint64_t{words[2 * f].get()} << 32 | words[2 * f + 1].get();
    }
    ORCHARD_INLINE void set(field f, std::uint64_t value) {
        words[2 * f].set(static_cast<std::uint32_t>(value >> 32));
        words[2 * f + 1].set(static_cast<std::uint32_t>(value));
    }
};

/// The words of a graph, in device memory; all zero is an empty graph.
struct graph_state {
    static constexpr std::uint32_t max_snapshots = 15;   ///< open at a time
    static constexpr std::uint32_t retired_lists = 256;  ///< so that as many threads look through them

    graph_table table;
    graph_table snapshots[max_snapshots];
    simt::device_word<std::uint32_t> oldest;  ///< the number of the oldest open snapshot; 0 if none is open
    simt::device_word<std::uint64_t> retired[retired_lists];  ///< `graph_retired_run`, a stack each
};

}  // namespace device
}  // namespace orchard
