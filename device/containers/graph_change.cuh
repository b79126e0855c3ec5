// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Changes of the edges of one vertex, by a team of threads. The caller has the row to itself.
///
/// Fresh edges are given by ascending positions: `at(k)` is the place in the old row before which fresh edge `k` goes,
/// so that old edge i moves by the number of positions that are not above i.
///
///     old row       10  20  30  40             new edges 15, 16, 50: positions 1, 1, 4
///     moves by       0   2   2   2
///     new row       10  15  16  20  30  40  50
///
/// If the run has room, and no snapshot reads it, the edges move within it, the last first. Otherwise they are copied
/// into another run. Removals are the mirror image: edge i moves down by the number of positions below it.
///
/// A team has `rank`, `size` and `sync()`. It says which of its threads read neighbouring edges: those of rank
/// `first_beside()` to `first_beside()` + `beside()` - 1. A thread moves `at_once` edges in a round, so that its loads
/// overlap. Teams with `in_step` wait for each other in each round; the others wait only where edges move in place.

#include <cstdint>

#include "device/containers/graph_row.cuh"
#include "device/group/leader.cuh"
#include "device/simt/block.cuh"
#include "device/simt/mutation.cuh"

namespace orchard::device {

/// Lanes that work together. `rank` counts from the leader on, which may be any lane of the mask.
struct graph_group {
    static constexpr std::uint32_t at_once = 8;
    static constexpr bool in_step = false;
    simt::lane_mask mask;
    int leader;
    std::uint32_t rank;
    std::uint32_t size;

    [[nodiscard]] ORCHARD_INLINE static graph_group of(simt::lane_mask mask, int leader) {
        const auto size = static_cast<std::uint32_t>(simt::popcount(mask));
        const auto own = static_cast<std::uint32_t>(simt::rank_in(mask));
        const auto first = static_cast<std::uint32_t>(simt::popcount(mask & ((simt::lane_mask{1} << leader) - 1)));
        return {mask, leader, own >= first ? own - first : own + size - first, size};
    }
    [[nodiscard]] ORCHARD_INLINE static graph_group of(simt::lane_mask mask) { return of(mask, simt::leader_of(mask)); }
    [[nodiscard]] ORCHARD_INLINE bool leads() const { return rank == 0; }
    [[nodiscard]] ORCHARD_INLINE std::uint32_t first_beside() const { return 0; }
    [[nodiscard]] ORCHARD_INLINE std::uint32_t beside() const { return size; }
    ORCHARD_INLINE void sync() const { simt::sync(mask); }
};

/// The lanes of a warp. The compiler knows their number.
struct graph_warp {
    static constexpr std::uint32_t at_once = 8;
    static constexpr bool in_step = false;
    static constexpr std::uint32_t size = simt::warp_size;
    std::uint32_t rank;

    [[nodiscard]] ORCHARD_INLINE static constexpr std::uint32_t first_beside() { return 0; }
    [[nodiscard]] ORCHARD_INLINE static constexpr std::uint32_t beside() { return size; }
    [[nodiscard]] ORCHARD_INLINE static constexpr simt::lane_mask beside_mask() { return ~simt::lane_mask{0}; }
    ORCHARD_INLINE static void sync() { simt::sync(beside_mask()); }
};

/// Eight lanes of a warp, whose other lanes work on other rows in step: each row is moved in one round, and all lanes
/// wait for each other in it. If the groups of a warp waited for their own lanes alone, they would be executed one
/// after the other.
struct graph_tile {
    static constexpr std::uint32_t at_once = 8;
    static constexpr bool in_step = true;
    static constexpr std::uint32_t size = 8;
    static constexpr std::uint32_t most = size * at_once;  ///< edges of a round
    std::uint32_t rank;

    [[nodiscard]] ORCHARD_INLINE std::uint32_t first_beside() const { return 0; }
    [[nodiscard]] ORCHARD_INLINE std::uint32_t beside() const { return size; }
    ORCHARD_INLINE void sync() const { simt::sync(~simt::lane_mask{0}); }
};

/// All threads of a block, which work together. Whole warps.
struct graph_block {
    static constexpr std::uint32_t at_once = 8;
    static_assert(1024 * at_once <= 0u - graph_max_degree, "an index of an edge would be beyond 32 bits");
    static constexpr bool in_step = false;
    std::uint32_t rank;
    std::uint32_t size;

    [[nodiscard]] ORCHARD_INLINE bool leads() const { return rank == 0; }
    [[nodiscard]] ORCHARD_INLINE std::uint32_t first_beside() const { return rank / simt::warp_size * simt::warp_size; }
    [[nodiscard]] ORCHARD_INLINE std::uint32_t beside() const { return simt::warp_size; }
    [[nodiscard]] ORCHARD_INLINE simt::lane_mask beside_mask() const { return ~simt::lane_mask{0}; }
    ORCHARD_INLINE void sync() const { simt::sync_in_block(); }
};

/// The run that a row moves to, and what is needed to retire the old one.
struct graph_move {
    std::uint64_t run = 0;              ///< the run of the changed row: the old one, or another one
    graph_retired_run* note = nullptr;  ///< of the old run, if a snapshot has it
    bool fits = false;                  ///< there was memory
};

/// The rows of a graph, as calls change them. Trivially copyable.
/// @tparam Heap  the view of the memory that rows lie in: `memory_of_tables`
template <class Property, class Heap = heap_ref>
class graph_rows {
public:
    using layout = graph_layout<Property>;

    graph_rows() = default;
    ORCHARD_FN graph_rows(const Heap& heap, graph_state* state) : heap_{heap}, state_{state} {}

    /// A row as it is.
    struct row {
        std::uint64_t run;
        std::uint32_t degree;
        [[nodiscard]] ORCHARD_INLINE std::uint32_t capacity() const { return layout::capacity(graph_run::bytes(run)); }
        [[nodiscard]] ORCHARD_INLINE graph_row<Property> edges() const { return graph_row<Property>(run, degree); }
    };
    [[nodiscard]] ORCHARD_INLINE static row open(const graph_vertex& v) { return {v.run.get(), v.degree.get()}; }

    /// Inserts `n` > 0 edges: edge k goes before edge `at(k)` of the old row, and `put(k, run, place)` writes it.
    /// Returns false, and changes nothing, without memory. All lanes of the group.
    template <class At, class Put>
    ORCHARD_FN bool insert(const graph_group& g, graph_vertex& v, std::uint32_t n, const At& at, const Put& put) const {
        const row old = open(v);
        const graph_move to = begin(g, v, old, std::uint64_t{old.degree} + n);
        if (!to.fits) {
            return false;
        }
        add_edges(g, old, to.run, n, at, put);
        simt::sync(g.mask);  // all have read the old run and written the new one
        if (g.leads()) {
            end(v, old, to, old.degree + n);
        }
        return true;
    }

    /// Removes the `n` > 0 edges at the places `at(k)`, which ascend. Returns false, and changes nothing, if a snapshot
    /// has the run and there is no memory for another one. All lanes of the group.
    template <class At>
    ORCHARD_FN bool remove(const graph_group& g, graph_vertex& v, std::uint32_t n, const At& at) const {
        const row old = open(v);
        const graph_move to = begin(g, v, old, old.degree - n);
        if (!to.fits) {
            return false;
        }
        remove_edges(g, old, to.run, n, at);
        simt::sync(g.mask);  // as in `insert`
        if (g.leads()) {
            end(v, old, to, old.degree - n);
        }
        return true;
    }

    /// Removes the edges whose target `drop(target)` is true for. Returns their number; `failed` if a snapshot has the
    /// run and there is no memory. All lanes of the group.
    static constexpr std::uint32_t failed = 0xffffffffu;
    template <class Drop>
    ORCHARD_FN std::uint32_t remove_if(const graph_group& g, graph_vertex& v, const Drop& drop) const {
        const row old = open(v);
        std::uint32_t n = 0;
        for (std::uint32_t i = 0; i < old.degree; i += g.size) {
            n += simt::popcount(simt::ballot(g.mask, i + g.rank < old.degree && drop(old.edges()[i + g.rank])));
        }
        if (n == 0) {
            return 0;
        }
        const graph_move to = begin(g, v, old, old.degree - n);
        if (!to.fits) {
            return failed;
        }
        std::uint32_t kept = 0;
        for (std::uint32_t i = 0; i < old.degree && to.run != 0; i += g.size) {
            const bool here = i + g.rank < old.degree;
            const std::uint32_t target = here ? old.edges()[i + g.rank] : 0;
            const held held_property = here ? load_property(old.run, i + g.rank) : held{};
            // The lanes of a group that does not begin at its lowest lane would have to be sorted by rank.
            const simt::lane_mask keep = simt::ballot(g.mask, here && !drop(target));
            simt::sync(g.mask);  // all have read
            if ((keep >> simt::lane_id() & 1) != 0) {
                const std::uint32_t place = kept + static_cast<std::uint32_t>(simt::rank_in(keep));
                layout::targets(to.run)[place].set(target);
                store_property(to.run, place, held_property);
            }
            kept += static_cast<std::uint32_t>(simt::popcount(keep));
        }
        simt::sync(g.mask);
        if (g.leads()) {
            end(v, old, to, old.degree - n);
        }
        return n;
    }

    // The parts of `insert` and `remove`, for teams whose row one thread chooses a run for.

    static constexpr std::uint32_t edges_of_line = 32;  ///< targets in 128 B

    /// Returns whether a row of `degree` edges stays in its run: no snapshot has it, and it is neither too small nor
    /// twice too large.
    [[nodiscard]] ORCHARD_FN bool stays(const graph_vertex& v, const row& old, std::uint64_t degree) const {
        return degree != 0 && degree <= old.capacity() && !is_too_large(old, degree) && !is_shared(v, old);
    }

    /// Returns where a row of `degree` edges goes: it stays if the run is neither too small nor twice too large. A row
    /// of more than `graph_max_degree` edges fits nowhere, as without memory. One thread. What `malloc` has acquired
    /// holds for the team behind a barrier.
    ORCHARD_NOINLINE graph_move choose(const graph_vertex& v, const row& old, std::uint64_t degree) const {
        const bool shared = is_shared(v, old);
        graph_retired_run* note = nullptr;
        if (shared) {
            note = static_cast<graph_retired_run*>(heap_.malloc(sizeof(graph_retired_run)));
            if (note == nullptr) {
                return {};
            }
        }
        if (degree == 0) {
            return {0, note, true};
        }
        const std::uint32_t wanted = layout::class_for(degree);
        const bool too_small = degree > old.capacity();
        if (!shared && !too_small && !is_too_large(old, degree)) {
            return {old.run, nullptr, true};
        }
        void* p = nullptr;
        if (degree <= graph_max_degree) {
            p = heap_.malloc(graph_run::bytes_of(wanted));
        }
        if (p != nullptr) {
            return {graph_run::pack(p, wanted), note, true};
        }
        if (!shared && !too_small) {
            return {old.run, nullptr, true};  // it stays too large
        }
        if (note != nullptr) {
            heap_.free(note);
        }
        return {};
    }

    /// Moves the old edges to their places in `run`, which may be the old one, and writes the `n` new edges; a tile
    /// without a row has none of either. All threads of the team.
    template <class Team, class At, class Put>
    ORCHARD_FN static void add_edges(const Team& team, const row& old, std::uint64_t run, std::uint32_t n, const At& at,
                                     const Put& put) {
        const bool in_place = n != 0 && run == old.run;
        const std::uint32_t first = in_place ? at(0) : 0;
        std::uint32_t end = old.degree;
        do {
            const std::uint32_t most = team.size * Team::at_once;
            const std::uint32_t begin = end - first < most ? first : end - most;
            const edges_at_once<Team> e(team, old, begin, end);
            if (!Team::in_step && begin > first + team.rank * edges_of_line) {
                // Of the next round, while this one works: as many lines as threads, or fewer.
                simt::prefetch(layout::targets(old.run) + (begin - 1 - team.rank * edges_of_line));
            }
            const shifts<Team> s(team, n, at, begin, end);
            if ((in_place || Team::in_step) && !skips_sync<Team>()) {
                team.sync();  // all have read the edges of this round; what it writes lies there and above
            }
            ORCHARD_UNROLL
            for (std::uint32_t j = 0; j < Team::at_once; ++j) {
                const std::uint32_t i = index_of(team, begin, j);
                if (i < end) {
                    e.store(run, j, i + s.through[j]);
                }
            }
            end = begin;
        } while (end > first);
        for (std::uint32_t k = team.rank; k < n; k += team.size) {
            put(k, run, at(k) + k);
        }
    }
    /// Copies a row into another run of its class. All threads of the team.
    template <class Team>
    ORCHARD_FN static void copy(const Team& team, const row& old, std::uint64_t run) {
        for (std::uint32_t begin = 0; begin < old.degree; begin += team.size * Team::at_once) {
            const edges_at_once<Team> e(team, old, begin, old.degree);
            ORCHARD_UNROLL
            for (std::uint32_t j = 0; j < Team::at_once; ++j) {
                const std::uint32_t i = index_of(team, begin, j);
                if (i < old.degree) {
                    e.store(run, j, i);
                }
            }
        }
    }
    /// Moves the edges that stay to their places in `run`, which may be the old one, or 0 if none stays. All threads of
    /// the team.
    template <class Team, class At>
    ORCHARD_FN static void remove_edges(const Team& team, const row& old, std::uint64_t run, std::uint32_t n,
                                        const At& at) {
        const bool in_place = n != 0 && run == old.run;
        const std::uint32_t degree = run != 0 ? old.degree : 0;
        std::uint32_t begin = in_place ? at(0) : 0;
        do {
            const edges_at_once<Team> e(team, old, begin, degree);
            const shifts<Team> s(team, n, at, begin, degree);
            if ((in_place || Team::in_step) && !skips_sync<Team>()) {
                team.sync();  // as in `add_edges`; what it writes lies there and below
            }
            ORCHARD_UNROLL
            for (std::uint32_t j = 0; j < Team::at_once; ++j) {
                const std::uint32_t i = index_of(team, begin, j);
                if (i < degree && !s.hit[j]) {
                    e.store(run, j, i - s.through[j]);
                }
            }
            begin += team.size * Team::at_once;
        } while (begin < degree);
    }
    /// Makes the changed row the vertex's, and frees or retires the old run. One thread, when all others have ended
    /// their parts.
    ORCHARD_NOINLINE void end(graph_vertex& v, const row& old, const graph_move& to, std::uint32_t degree) const {
        v.degree.set(degree);
        if (to.run == old.run) {
            return;
        }
        v.run.set(to.run);
        if (to.note != nullptr) {
            retire(v, old, to);
            forget_snapshots(v);
        } else if (old.run != 0) {
            heap_.free(graph_run::address(old.run));
        }
    }
    // The parts of `end` for a batch, beside which no snapshot is opened or closed: `retire` before the row is changed,
    // `leave` when it is.
    /// Notes that snapshots may read the old run.
    ORCHARD_FN void retire(const graph_vertex& v, const row& old, const graph_move& to) const {
        retire(v, to.note, old.run, v.lock.template load<simt::order::relaxed>() >> 1);
    }
    /// Frees the old run of a row that has moved, unless a snapshot has it.
    ORCHARD_FN void leave(graph_vertex& v, const row& old) const {
        if (is_shared(v, old)) {
            forget_snapshots(v);
        } else if (old.run != 0) {
            heap_.free(graph_run::address(old.run));
        }
    }

    [[nodiscard]] ORCHARD_INLINE const Heap& heap() const { return heap_; }
    [[nodiscard]] ORCHARD_INLINE graph_state& state() const { return *state_; }

private:
    [[nodiscard]] ORCHARD_INLINE static bool is_too_large(const row& old, std::uint64_t degree) {
        return graph_run::bytes_of(layout::class_for(degree)) <= graph_run::bytes(old.run) / 2;
    }
    /// Finds a run for `degree` edges. All lanes of the group.
    ORCHARD_FN graph_move begin(const graph_group& g, graph_vertex& v, const row& old, std::uint64_t degree) const {
        std::uint64_t run = 0;
        std::uint64_t note = 0;
        std::uint32_t fits = 0;
        if (g.leads()) {
            const graph_move to = choose(v, old, degree);
            run = to.run;
            note = reinterpret_cast<std::uint64_t>(to.note);
            fits = to.fits ? 1 : 0;
        }
        run = simt::shuffle(g.mask, run, g.leader);
        note = simt::shuffle(g.mask, note, g.leader);
        fits = simt::shuffle(g.mask, fits, g.leader);
        simt::sync(g.mask);  // what `malloc` has acquired
        return {run, reinterpret_cast<graph_retired_run*>(note), fits != 0};
    }

    /// Returns true if the fault `batch_step` is chosen, for tiles.
    template <class Team>
    ORCHARD_INLINE static bool skips_sync() {
        return Team::in_step && simt::mutation::is(simt::mutation::fault::batch_step);
    }

    /// A property, or nothing.
    struct nothing {};
    using held = std::conditional_t<layout::has_property, Property, nothing>;
    ORCHARD_INLINE static held load_property([[maybe_unused]] std::uint64_t run, [[maybe_unused]] std::uint32_t i) {
        if constexpr (layout::has_property) {
            return simt::read_element(layout::properties(run)[i]);
        } else {
            return {};
        }
    }
    ORCHARD_INLINE static void store_property([[maybe_unused]] std::uint64_t run, [[maybe_unused]] std::uint32_t i,
                                              [[maybe_unused]] const held& p) {
        if constexpr (layout::has_property) {
            simt::write_element(layout::properties(run)[i], p);
        }
    }

    /// Returns the `j`-th edge of a thread in the round that begins at edge `begin`: threads that are side by side take
    /// a part of `beside` * `at_once` edges, `beside` at a time.
    template <class Team>
    ORCHARD_INLINE static std::uint32_t index_of(const Team& team, std::uint32_t begin, std::uint32_t j) {
        return begin + team.first_beside() * Team::at_once + j * team.beside() + (team.rank - team.first_beside());
    }

    /// The edges of one thread in a round.
    template <class Team>
    struct edges_at_once {
        std::uint32_t target[Team::at_once];
        held property[Team::at_once];

        ORCHARD_INLINE edges_at_once(const Team& team, const row& old, std::uint32_t begin, std::uint32_t end) {
            ORCHARD_UNROLL
            for (std::uint32_t j = 0; j < Team::at_once; ++j) {
                const std::uint32_t i = index_of(team, begin, j);
                target[j] = i < end ? layout::targets(old.run)[i].get() : 0;
                property[j] = i < end ? load_property(old.run, i) : held{};
            }
        }
        ORCHARD_INLINE void store(std::uint64_t run, std::uint32_t j, std::uint32_t place) const {
            layout::targets(run)[place].set(target[j]);
            if (!simt::mutation::is(simt::mutation::fault::batch_property)) {
                store_property(run, place, property[j]);
            }
        }
    };

    /// For each edge of one thread in a round: how many of the `n` positions are not above it, and whether it is one of
    /// them. Threads that are side by side look at the same positions, those within their part, mostly a few; they load
    /// each at the same time.
    template <class Team>
    struct shifts {
        static constexpr std::uint32_t few = 8;    ///< positions of a row that are all looked at
        static constexpr std::uint32_t many = 32;  ///< positions of a part, from which on each edge searches
        std::uint32_t through[Team::at_once];
        bool hit[Team::at_once];

        template <class At>
        ORCHARD_INLINE shifts(const Team& team, std::uint32_t n, const At& at, std::uint32_t begin, std::uint32_t end) {
            std::uint32_t low = 0;
            std::uint32_t high = n;
            if (n > few) {
                const std::uint32_t first = begin + team.first_beside() * Team::at_once;
                const std::uint32_t length = team.beside() * Team::at_once;
                const std::uint32_t last = first < end && end - first > length ? first + length : end;
                low = below_together(team, 0, n, at, first);
                high = below_together(team, low, n, at, last);
            }
            ORCHARD_UNROLL
            for (std::uint32_t j = 0; j < Team::at_once; ++j) {
                through[j] = low;
                hit[j] = false;
            }
            if (high - low > many) {
                ORCHARD_UNROLL
                for (std::uint32_t j = 0; j < Team::at_once; ++j) {
                    const std::uint32_t i = index_of(team, begin, j);
                    through[j] = below(low, high, at, i + 1);
                    hit[j] = through[j] != low && at(through[j] - 1) == i;
                }
                return;
            }
            // One byte for each edge: the positions not above it.
            static_assert(Team::at_once <= 8 && many < 256);
            constexpr std::uint64_t one_each = 0x0101010101010101u;
            const std::uint32_t own = index_of(team, begin, 0);
            std::uint64_t counts = 0;
            std::uint32_t hits = 0;
            for (std::uint32_t k = low; k < high; ++k) {
                const std::uint32_t position = at(k);
                const std::uint32_t distance = position > own ? position - own : 0;
                const std::uint32_t j = (distance + team.beside() - 1) / team.beside();  // the first one not below it
                counts += j < Team::at_once ? one_each << 8 * j : 0;
                hits |= j < Team::at_once && own + j * team.beside() == position ? 1u << j : 0;
            }
            ORCHARD_UNROLL
            for (std::uint32_t j = 0; j < Team::at_once; ++j) {
                through[j] += static_cast<std::uint32_t>(counts >> 8 * j & 0xff);
                hit[j] = (hits >> j & 1) != 0;
            }
        }

        /// The same as `below`, by the threads that are side by side, all with the same arguments, if these are a
        /// warp: each round looks at as many positions as there are threads, so that it takes a fifth of the rounds.
        template <class At>
        ORCHARD_FN static std::uint32_t below_together(const Team& team, std::uint32_t first, std::uint32_t end,
                                                       const At& at, std::uint32_t i) {
            if constexpr (!requires { team.beside_mask(); }) {
                return below(first, end, at, i);
            } else {
                const std::uint32_t rank = team.rank - team.first_beside();
                while (first != end) {
                    const std::uint32_t step = (end - first + team.beside() - 1) / team.beside();
                    const std::uint32_t own = first + (rank + 1) * step - 1;
                    const auto count = static_cast<std::uint32_t>(
                        simt::popcount(simt::ballot(team.beside_mask(), own < end && at(own) < i)));
                    first += count * step;
                    end = end - first < step ? end : first + step - 1;
                }
                return first;
            }
        }
        /// Returns the first of the positions [first, end) that is not below `i`; `end` if all are.
        template <class At>
        ORCHARD_FN static std::uint32_t below(std::uint32_t first, std::uint32_t end, const At& at, std::uint32_t i) {
            while (first != end) {
                const std::uint32_t middle = first + (end - first) / 2;
                const bool is_below = at(middle) < i;
                first = is_below ? middle + 1 : first;
                end = is_below ? end : middle;
            }
            return first;
        }
    };

    /// Returns whether an open snapshot has the run of `v`. A snapshot raises `oldest` from 0 before it takes the lock
    /// of `v`; when it has been closed, its readers' loads come before the stores of the caller.
    [[nodiscard]] ORCHARD_FN bool is_shared(const graph_vertex& v, const row& old) const {
        const std::uint32_t copied = v.lock.template load<simt::order::relaxed>() >> 1;
        if (old.run == 0 || copied == 0 || simt::mutation::is(simt::mutation::fault::graph_in_place)) {
            return false;
        }
        simt::mutation::weaken_next(simt::mutation::fault::graph_close);
        // Pairs with the release in `graph_free_retired`.
        const std::uint32_t oldest = state_->oldest.template load<simt::order::acquire>();
        return oldest != 0 && copied >= oldest;
    }

    /// Notes that no snapshot has the run of `v`, which is a new one.
    ORCHARD_INLINE static void forget_snapshots(graph_vertex& v) {
        v.lock.template store<simt::order::relaxed>(v.lock.template load<simt::order::relaxed>() & 1);
    }
    /// Notes that snapshots up to number `snapshot` may read `run`.
    ORCHARD_FN void retire(const graph_vertex& v, graph_retired_run* note, std::uint64_t run,
                           std::uint32_t snapshot) const {
        if (simt::mutation::is(simt::mutation::fault::graph_retire)) {
            heap_.free(note);
            heap_.free(graph_run::address(run));
            return;
        }
        note->set(graph_retired_run::run, run - base() / 16);
        note->set(graph_retired_run::snapshot, snapshot);
        push_retired(note, static_cast<std::uint32_t>(reinterpret_cast<std::uint64_t>(&v) / sizeof(v)));
    }

public:
    /// Puts a note on one of the stacks.
    ORCHARD_FN void push_retired(graph_retired_run* note, std::uint32_t list) const {
        auto& head = state_->retired[list % graph_state::retired_lists];
        std::uint64_t found = head.template load<simt::order::relaxed>();
        do {
            note->set(graph_retired_run::next, found == 0 ? 0 : found - base() + 16);
            // Pairs with the acquire of the thread that takes the stack.
        } while (!head.template compare_exchange<simt::order::release>(found, reinterpret_cast<std::uint64_t>(note)));
    }
    /// Frees the runs of stack `list` that no snapshot from number `oldest` on has; all if `oldest` is 0. Any thread.
    ORCHARD_FN void free_retired(std::uint32_t list, std::uint32_t oldest) const {
        std::uint64_t at = state_->retired[list].template exchange<simt::order::acquire>(0);
        while (at != 0) {
            auto* const note = reinterpret_cast<graph_retired_run*>(at);
            const std::uint64_t next = note->get(graph_retired_run::next);
            at = next == 0 ? 0 : next + base() - 16;
            if (oldest == 0 || note->get(graph_retired_run::snapshot) < oldest) {
                heap_.free(graph_run::address(note->get(graph_retired_run::run) + base() / 16));
                heap_.free(note);
            } else {
                push_retired(note, list);
            }
        }
    }

private:
    /// Returns the heap's first address; 0 of another allocator. Notes have distances from it: halves of addresses
    /// would make the runs of a simulation differ.
    [[nodiscard]] ORCHARD_INLINE std::uint64_t base() const {
        if constexpr (std::is_same_v<Heap, heap_ref>) {
            return reinterpret_cast<std::uint64_t>(heap_.view().base);
        } else {
            return 0;
        }
    }

    Heap heap_;
    graph_state* state_ = nullptr;
};

}  // namespace orchard::device
