// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A machine with weak memory. Every word keeps its past versions. Every actor has a view of each word: the oldest
/// version that the actor may still read.
///
///     word x:   v0 --- v1 --- v2 --- v3        its versions in modification order
///                      ^             ^
///          A's view of x             newest: a load of A may return v1, v2 or v3
///
/// Modelled:
/// - A load returns any version from its reader's view on, and moves the view of that word to that version.
/// - A store adds a version. It may be placed before versions that its writer has not seen.
/// - A read-modify-write takes the newest version, and no version is ever placed between that one and its own. A
///   compare-and-swap that fails also reads the newest version, unlike in C++: the hardware's does not fail on an old
///   value.
/// - A release stores a copy of the writer's view with the version. An acquire that reads the version joins that copy
///   to the reader's view. Fences do the same for the relaxed accesses around them. An actor passes on what it has read
///   with its next release (cumulativity). A read-modify-write passes on what the version that it took released.
/// - Scopes. An access and the store that it reads from are coherent, and ordered, only if each names a scope that
///   includes both actors (PTX: morally strong). A release orders an acquire only if these two include each other, and
///   so does every link in the chain of read-modify-writes between them. A read-modify-write is atomic only relative to
///   accesses that it is morally strong with.
/// - A sync of a mask orders its lanes, a barrier of a block its threads. No other collective orders anything.
/// - Plain accesses. An access that conflicts with an earlier one, plain or atomic, which is not ordered before it, is
///   a violation if one of the two is plain. If races are no violations, plain loads may return old versions and order
///   nothing.
/// - A load that sees a later store (load buffering), by `promise`, only if the driver of a run asks for it.
/// - Every store eventually becomes visible to all actors (`set_patience`).
/// - What a host thread has read of a word is in host memory, the only place of a word of system scope. Every later
///   store is placed after that version, even if nothing orders the two in C++. (A request is written at a ticket that
///   its writer got only because the host had read the request before.)
///
/// Not modelled, so that a faulty program may pass:
/// - load buffering in ordinary runs;
/// - plain stores that are placed before other stores, and torn words (words have 32 or 64 bits and are aligned);
/// - two words at one address; proxies; the L1 cache itself, whose stale lines are old versions here;
/// - a race in which the later access ends before the earlier one begins and other actors store in between: other runs
///   show it.
///
/// Not modelled, so that a program that is right on the hardware may fail (the meaning is that of C++20, which is
/// weaker):
/// - sequentially consistent fences (the seam has none);
/// - data and control dependencies, which order nothing;
/// - a store of a thread that released the same word by an earlier store; in PTX, the later store still releases that;
/// - scopes of host threads other than `system`.
///
/// Sources: the view machines of Kang et al., A Promising Semantics for Relaxed-Memory Concurrency, POPL 2017; scopes
/// and moral strength: Lustig et al., A Formal Analysis of the NVIDIA PTX Memory Consistency Model, ASPLOS 2019, and
/// the chapter on memory consistency of the PTX ISA.

#include <absl/container/flat_hash_map.h>
#include <absl/container/inlined_vector.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/simt/config.cuh"
#include "device/simt/emulated/hooks.hpp"
#include "device/simt/explore/choices.hpp"

namespace orchard::simt::explore {

using emulated::modification;
using emulated::shared_access;

/// An error of the program under test; thrown through the actor that has shown it.
struct violation {
    std::string what;
};

/// The scopes that an actor belongs to.
struct party {
    bool host = false;
    std::uint32_t block = 0;  ///< block of the device; 0 for the host
    bool operator==(const party&) const = default;
};

/// An actor's knowledge: for each word, the time of the oldest version that it may read; for each other actor, the
/// number of that actor's accesses that it is ordered after.
/// Words and actors have indices in one numbering (`weak_memory::indices_`), so that one list of numbers holds both. An
/// index that the list does not reach has the value 0: the initial version, and no access.
///
///     index        0: lane 0    1: lane 1    2: word x    3: host    4: word y
///     lane 0's        17            9          2048          0          1024
class view {
public:
    [[nodiscard]] std::uint32_t at(std::uint32_t index) const { return index < at_.size() ? at_[index] : 0; }
    /// Raises one entry to `value`, if it is less.
    void raise(std::uint32_t index, std::uint32_t value) {
        if (index >= at_.size()) {
            at_.resize(index + 1);
        }
        at_[index] = at_[index] < value ? value : at_[index];
    }
    /// Adds the knowledge of `other`: the maximum of both, entry by entry.
    void join(const view& other) {
        if (at_.size() < other.at_.size()) {
            at_.resize(other.at_.size());
        }
        for (std::size_t i = 0; i < other.at_.size(); ++i) {
            at_[i] = at_[i] < other.at_[i] ? other.at_[i] : at_[i];
        }
    }

private:
    std::vector<std::uint32_t> at_;
};

/// What an access saw, for the trace.
struct sighting {
    std::uint32_t word = 0;      ///< number of the word, in the order of first accesses
    std::uint64_t before = 0;    ///< value read; for a store, the newest value before it
    std::uint64_t after = 0;     ///< value of the word after this access
    std::uint32_t versions = 0;  ///< number of versions that the access could have seen
    std::uint32_t back = 0;      ///< number of versions newer than the one seen
    actor_id writer = 0;         ///< writer of the version read
    bool from_writer = false;    ///< an actor has written that version
    bool acquired = false;       ///< the reader's view was joined with the writer's
};

/// The memory of one run. Not thread-safe.
class weak_memory {
public:
    explicit weak_memory(choices& from) : choices_{from} {}

    /// Sets after how many accesses a replaced version is no longer read, so that every store becomes visible
    /// eventually.
    void set_patience(std::uint64_t accesses) { patience_ = accesses; }
    /// Sets whether a race of plain accesses is a violation (the default), or a load that may return old versions.
    void set_races_are_violations(bool yes) { races_are_violations_ = yes; }

    /// Takes over values that were written to words while no actor ran; every actor knows of them.
    void take_up_outside_changes();

    /// Adds an actor. It is ordered after everything that the actors of `after` have done.
    actor_id add_actor(party of, std::span<const actor_id> after = {});

    /// Lets `to`, which makes no access any more, know what the actors of `from` know, for actors that are added later.
    void pass_on(std::span<const actor_id> from, actor_id to);

    std::uint64_t load(actor_id id, const shared_access& a);
    void store(actor_id id, const shared_access& a, std::uint64_t value);
    std::uint64_t modify(actor_id id, const shared_access& a, modification what, std::uint64_t operand);
    bool compare_exchange(actor_id id, const shared_access& a, order on_failure, std::uint64_t& expected,
                          std::uint64_t desired);
    void fence(actor_id id, scope within);
    /// Orders what each actor of the group did before after what each does later: a barrier of their mask.
    void join(std::span<const actor_id> group);

    /// Adds a value that `id` will store later, so that other actors can see it now (load buffering). `a` is a relaxed
    /// atomic store. The store that keeps the promise adds no other version. The caller must show, before the call and
    /// at each step until the promise is kept, that `id` alone would store this value; otherwise values come out of
    /// thin air. A run that ends with open promises is no execution.
    void promise(actor_id id, const shared_access& a, std::uint64_t value);
    [[nodiscard]] bool promises_kept() const { return promises_ == 0; }

    /// Returns the newest value of a word, and orders nothing.
    [[nodiscard]] std::uint64_t newest(const shared_access& a) { return find(a).versions.back().value; }

    /// Returns what the last access saw.
    [[nodiscard]] const sighting& last() const { return last_; }
    /// Returns the number of accesses of `other` that `id` is ordered after.
    [[nodiscard]] std::uint32_t knows(actor_id id, actor_id other) const {
        return actors_[id].now.at(actors_[other].index);
    }
    [[nodiscard]] std::uint32_t accesses_of(actor_id id) const { return actors_[id].clock; }

private:
    static constexpr std::size_t levels = 3;  // block, device, system
    using snapshot = std::shared_ptr<const view>;

    /// What a version passes on to actors that acquire it.
    struct release {
        party by;      // the actor that releases; an acquire must name a scope that includes it
        scope within;  // the scope that the release names, also if read-modify-writes lie between the two
        snapshot known;
    };
    using releases_of_version = absl::InlinedVector<release, 1>;

    /// An actor's part of the state.
    struct actor {
        party of;
        std::uint32_t index = 0;  // index in views
        std::uint32_t clock = 0;  // number of its accesses, fences and barriers
        view now;
        std::array<view, levels> pending;     // what the next fence will acquire, by scope
        std::array<snapshot, levels> fenced;  // what the last fences released, by scope
    };
    /// One value of a word. `time` orders the versions of one word, with gaps for versions that are placed in between.
    struct version {
        std::uint64_t value = 0;
        std::uint64_t replaced_at = ~std::uint64_t{0};  // number of the access that stored a newer one; at first never
        releases_of_version released;
        site where{"", 0};
        std::uint32_t time = 0;
        std::uint32_t clock = 0;  // clock of the writer
        actor_id writer = 0;
        scope within = scope::system;
        bool initial = false;
        bool is_plain = false;
        bool promised = false;  // its writer has not stored it yet
        bool glued = false;     // no version may be placed between this one and the one before
    };
    /// A plain load, against which later stores are checked.
    struct reading {
        actor_id id;
        std::uint32_t clock;
        site where;
    };
    struct word {
        const volatile void* address;
        std::uint8_t bytes;
        std::uint32_t number;       // number in the order of first accesses
        std::uint32_t index;        // index in views
        std::uint32_t arrived = 0;  // time of the latest version that the host has read
        std::vector<version> versions;
        std::vector<reading> plain_reads;  // since the last store
    };

    static version initial_version(std::uint64_t value, std::uint32_t time);
    static bool has_room_before(const word& w, std::size_t i);
    static releases_of_version own_releases(const actor& me, const shared_access& a);
    static void hand_on(const actor& me, const shared_access& a, const version& taken, releases_of_version& to);

    word& find(const shared_access& a);
    void begin(actor_id id, const word& w);
    [[nodiscard]] bool reaches(actor_id id, const shared_access& a, const version& v) const;
    [[nodiscard]] bool is_before(actor_id id, const version& v) const;
    [[nodiscard]] std::size_t oldest_readable(actor_id id, const word& w) const;
    void observe(actor_id id, const shared_access& a, order o, const word& w, const version& v);
    std::uint64_t read(actor_id id, const shared_access& a, order o, word& w);
    void insert(actor_id id, const shared_access& a, word& w, std::uint64_t value, std::size_t place,
                const version* modified);
    [[nodiscard]] std::size_t place_for(actor_id id, const shared_access& a, const word& w);
    [[nodiscard]] std::size_t taken_by(actor_id id, const shared_access& a, const word& w);
    void check_race(actor_id id, const shared_access& a, const word& w, const char* what);
    bool keep_promise(actor_id id, const shared_access& a, word& w, std::uint64_t value);
    void note_plain_load(actor_id id, const shared_access& a, word& w);
    void forget_old(word& w);

    choices& choices_;
    std::uint64_t patience_ = 1000;
    bool races_are_violations_ = true;
    std::uint64_t accesses_ = 0;
    std::uint32_t indices_ = 0;
    std::uint32_t promises_ = 0;  // number of promises that are not kept yet
    std::vector<actor> actors_;
    absl::flat_hash_map<const volatile void*, std::uint32_t> numbers_;
    std::vector<std::unique_ptr<word>> words_;
    sighting last_;
};

}  // namespace orchard::simt::explore
