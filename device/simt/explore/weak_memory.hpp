// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A machine with weak memory: every word keeps its past versions, and each actor a view of which it has surely passed.
///
///     word x:   v0 --- v1 --- v2 --- v3        its versions in modification order
///                      ^             ^
///          A's view of x             newest: a load of A may return v1, v2 or v3
///
/// Modelled:
/// - A load returns any version that its reader's view does not lie behind, and moves the view of that word there.
/// - A store appends a version; it may also come in front of versions that its writer has not seen.
/// - A read-modify-write takes the newest version, and nothing comes between the two. So does a compare-and-swap that
///   fails, other than in C++: the hardware's does not fail on an old value.
/// - A release puts a copy of the writer's view beside the version; an acquire that reads it joins that view to its
///   own. Fences do the same for the relaxed accesses around them. What an actor has read, it passes on with its next
///   release (cumulativity). A read-modify-write hands on what the version that it took released.
/// - Scopes. An access and the store it reads from are coherent, and ordered, only where each names a scope that holds
///   both actors (PTX: morally strong). A release orders an acquire only where these two hold each other so, as does
///   every link of the chain of read-modify-writes between them. A read-modify-write is atomic only with those.
/// - A sync of a mask orders its lanes. No other collective orders anything.
/// - Plain accesses: a violation where a conflicting access, plain or atomic, that came before is not ordered before;
///   or, where races are no violations, loads that may be stale and order nothing.
/// - A load that sees a later store (load buffering), by `promise`: only where a driver of the runs asks for it.
/// - A store is seen by all some time (`set_patience`).
/// - What a host thread has read of a word is in the host's memory, where words of system scope have their one place:
///   whatever is stored from then on comes behind it, although nothing orders the two for C++. (A post is written at
///   a ticket that its writer got only because the host had read the post before.)
///
/// Not modelled, so that a program may still be wrong:
/// - load buffering in ordinary runs;
/// - plain stores that come in front of others, and words torn in parts (they are 32 or 64 bits and aligned);
/// - two words at one address; proxies; the L1 cache as such, whose stale lines are old versions here;
/// - a race where the later access ends before the earlier begins and others store in between: other runs show it.
///
/// Not modelled, so that a right program of the hardware may fail (the meaning is that of C++20, which is weaker):
/// - fences of sequential consistency (the seam has none);
/// - data and control dependencies, which order nothing;
/// - a store of a thread that released the same word by an earlier store, which in PTX still releases that;
/// - host threads are in one scope only by `system`.
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

/// What is wrong with the program under test; thrown through the actor that has shown it.
struct violation {
    std::string what;
};

/// Which threads an actor shares a scope with.
struct party {
    bool host = false;
    std::uint32_t block = 0;  ///< of the device; 0 for the host
    bool operator==(const party&) const = default;
};

/// How far an actor has surely come: with each word (the time of a version) and with each other actor (its count of
/// accesses).
class view {
public:
    [[nodiscard]] std::uint32_t at(std::uint32_t index) const { return index < at_.size() ? at_[index] : 0; }
    void raise(std::uint32_t index, std::uint32_t value) {
        if (index >= at_.size()) {
            at_.resize(index + 1);
        }
        at_[index] = at_[index] < value ? value : at_[index];
    }
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
    std::uint32_t word = 0;      ///< index of the word, in the order of first accesses
    std::uint64_t before = 0;    ///< value read, or newest value before a store
    std::uint64_t after = 0;     ///< value of the word as this access leaves it
    std::uint32_t versions = 0;  ///< how many the access could have seen
    std::uint32_t back = 0;      ///< how many newer ones than the one seen there are
    actor_id writer = 0;         ///< of the version read
    bool from_writer = false;    ///< whether it was written by an actor at all
    bool acquired = false;       ///< whether the reader's view was joined with the writer's
};

/// The memory of one run. Not thread-safe.
class weak_memory {
public:
    explicit weak_memory(choices& from) : choices_{from} {}

    /// Versions that were replaced so many accesses ago are read no more: what is stored becomes visible some time.
    void set_patience(std::uint64_t accesses) { patience_ = accesses; }
    /// Whether a race of plain accesses is a violation (the default), or a load that may return old versions.
    void set_races_are_violations(bool yes) { races_are_violations_ = yes; }

    /// Takes up what was written to words while no actor ran, as if everybody knew of it.
    void take_up_outside_changes();

    /// A new actor. It begins behind everything that the actors of `after` have done.
    actor_id add_actor(party of, std::span<const actor_id> after = {});

    std::uint64_t load(actor_id who, const shared_access& a);
    void store(actor_id who, const shared_access& a, std::uint64_t value);
    std::uint64_t modify(actor_id who, const shared_access& a, modification what, std::uint64_t operand);
    bool compare_exchange(actor_id who, const shared_access& a, order on_failure, std::uint64_t& expected,
                          std::uint64_t desired);
    void fence(actor_id who, scope within);
    /// Orders what each of them did before with what each does after: a barrier of their mask.
    void join(std::span<const actor_id> group);

    /// Adds what `who` will store later, for others to see now: loads that see later stores (load buffering). `a`: a
    /// relaxed atomic store. The store that keeps the promise makes no other version. The caller has to show before
    /// that `who`, alone, would store this, and again at each step until it is kept: otherwise values come out of thin
    /// air. A run that ends with open promises is no execution.
    void promise(actor_id who, const shared_access& a, std::uint64_t value);
    [[nodiscard]] bool promises_kept() const { return promises_ == 0; }

    /// The newest version of a word, without ordering anything.
    [[nodiscard]] std::uint64_t newest(const shared_access& a) { return find(a).versions.back().value; }

    /// What the last access saw.
    [[nodiscard]] const sighting& last() const { return last_; }
    /// How much of what `other` did `who` is behind of, in accesses of `other`.
    [[nodiscard]] std::uint32_t knows(actor_id who, actor_id other) const {
        return actors_[who].now.at(actors_[other].index);
    }
    [[nodiscard]] std::uint32_t accesses_of(actor_id who) const { return actors_[who].clock; }

private:
    static constexpr std::size_t levels = 3;  // block, device, system
    using snapshot = std::shared_ptr<const view>;

    /// What a version passes on to those that acquire it.
    struct release {
        party by;      // a release orders those who are in its scope, as those that acquire it are to name one
        scope within;  // that holds who released; however many read-modify-writes lie between the two
        snapshot known;
    };
    using releases_of_version = absl::InlinedVector<release, 1>;

    struct actor {
        party of;
        std::uint32_t index = 0;  // in views
        std::uint32_t clock = 0;
        view now;
        std::array<view, levels> pending;     // what a fence will acquire
        std::array<snapshot, levels> fenced;  // what the last fences released
    };
    struct version {
        std::uint64_t value = 0;
        std::uint64_t replaced_at = ~std::uint64_t{0};
        releases_of_version released;
        site where{"", 0};
        std::uint32_t time = 0;
        std::uint32_t clock = 0;  // of the writer
        actor_id writer = 0;
        scope within = scope::system;
        bool initial = false;
        bool is_plain = false;
        bool promised = false;  // its writer has yet to store it
        bool glued = false;     // nothing may come between this and the version before it
    };
    struct reading {
        actor_id who;
        std::uint32_t clock;
        site where;
    };
    struct word {
        const volatile void* address;
        std::uint8_t bytes;
        std::uint32_t number;       // in the order of first accesses
        std::uint32_t index;        // in views
        std::uint32_t arrived = 0;  // the time of the latest version that the host has read
        std::vector<version> versions;
        std::vector<reading> plain_reads;  // since the last store
    };

    static version initial_version(std::uint64_t value, std::uint32_t time);
    static bool has_room_before(const word& w, std::size_t i);
    static releases_of_version own_releases(const actor& me, const shared_access& a);
    static void hand_on(const actor& me, const shared_access& a, const version& taken, releases_of_version& to);

    word& find(const shared_access& a);
    void begin(actor_id who, const word& w);
    [[nodiscard]] bool reaches(actor_id who, const shared_access& a, const version& v) const;
    [[nodiscard]] bool is_before(actor_id who, const version& v) const;
    [[nodiscard]] std::size_t oldest_readable(actor_id who, const word& w) const;
    void observe(actor_id who, const shared_access& a, order o, const word& w, const version& v);
    std::uint64_t read(actor_id who, const shared_access& a, order o, word& w);
    void insert(actor_id who, const shared_access& a, word& w, std::uint64_t value, std::size_t place,
                const version* modified);
    [[nodiscard]] std::size_t place_for(actor_id who, const shared_access& a, const word& w);
    [[nodiscard]] std::size_t taken_by(actor_id who, const shared_access& a, const word& w);
    void check_race(actor_id who, const shared_access& a, const word& w, const char* what);
    bool keep_promise(actor_id who, const shared_access& a, word& w, std::uint64_t value);
    void note_plain_load(actor_id who, const shared_access& a, word& w);
    void forget_old(word& w);

    choices& choices_;
    std::uint64_t patience_ = 1000;
    bool races_are_violations_ = true;
    std::uint64_t accesses_ = 0;
    std::uint32_t indices_ = 0;
    std::uint32_t promises_ = 0;  // not yet kept
    std::vector<actor> actors_;
    absl::flat_hash_map<const volatile void*, std::uint32_t> numbers_;
    std::vector<std::unique_ptr<word>> words_;
    sighting last_;
};

}  // namespace orchard::simt::explore
