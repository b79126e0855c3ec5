// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The exploring scheduler: lanes and host threads are the actors of one deterministic simulation. One actor runs at a
/// time. Before every shared access, collective and wait, a choice decides which actor continues. Memory is weak
/// (`weak_memory`); the clock is logical. The choices determine everything that happens.
///
///     run, on the scheduler's stack              an actor's stack
///       pick_next: the first actor
///       resume -------------- jump ----------->  x.load() in its body
///                                                  load
///                                                    point          20 ns pass; a delay, if chosen
///                                                      switch_away: pick_next chooses another actor
///       resume (that actor) <--- jump ----------------
///         ...
///       resume -------------- jump ----------->      point returns
///                                                    memory_.load   a choice: the version that is seen
///                                                    note_access    the hash, the timeline, watchers
///                                                  the next operation of the body
///
/// An actor that `pick_next` chooses again continues without a jump. The real memory always has the newest value of
/// each word, so that code outside of actors can read it.

#include <absl/container/flat_hash_map.h>

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "device/simt/config.cuh"
#include "device/simt/emulated/block_sum.hpp"
#include "device/simt/emulated/hooks.hpp"
#include "device/simt/emulated/lane_fiber.hpp"
#include "device/simt/emulated/warp.hpp"
#include "device/simt/explore/choices.hpp"
#include "device/simt/explore/trace.hpp"
#include "device/simt/explore/weak_memory.hpp"

namespace orchard::simt::explore {

/// The settings of a simulation, besides its choices.
struct settings {
    /// Number of scheduling points after which a run counts as livelocked. Runs of `any_options` in which actors stand
    /// still, while others poll, need more than 130,000.
    std::uint64_t most_points = 1'000'000;
    bool keep_trace = false;           ///< record every operation
    bool races_are_violations = true;  ///< races of plain accesses are violations
    std::uint32_t delays = 12;         ///< number of long delays of actors in a run
    std::uint32_t pause_stretch = 0;   ///< factor by which a pause is longer than asked for; 0: drawn at random
};

/// The lanes of the warps of one block: {4, 4} is two warps of four lanes each. A warp has 1 to 32.
using block_shape = std::vector<int>;

/// The result of a run.
struct verdict {
    std::string violation;         ///< empty: no violation was found
    std::uint64_t points = 0;      ///< scheduling points passed
    std::uint64_t trace_hash = 0;  ///< hash of all events; the same for the same run on any machine
    emulated::costs lane_costs;    ///< summed over all lanes
    [[nodiscard]] bool ok() const { return violation.empty(); }
};

/// One run. A scenario creates it, adds actors, and calls `run` once for each set of kernels:
///
///     s.name_words(&counter, sizeof(counter), "counter");
///     s.add_host("service", [&] { for (;;) { service.poll_once(); simt::pause(500); } });
///     s.add_kernel({{4, 4}, {4}}, [&](thread_position at) { ... });
///     if (s.run()) { s.check(counter == 12, "a count was lost"); }
///
/// Actors access shared words through the seam. Code of the scenario outside of actors accesses memory directly; the
/// next `run` treats its writes as known to every actor.
///
/// If a run ends early, the actors leave their bodies by an exception of a private type, so that the destructors on
/// their stacks run, once. Calls of the seam while an exception is in flight are executed, but no other actor runs
/// meanwhile. Once the run is over, such calls do nothing. A destructor may therefore call the seam. It must be
/// declared `noexcept(false)` if it also does so without an exception, and no handler may swallow an exception of
/// unknown type.
///
/// Only the thread that created a simulation may use it. A thread runs one simulation at a time.
class simulation final : public emulated::simulation_hooks {
public:
    /// Draws the factor of pauses unless the settings name it. @param from  must outlive the simulation
    explicit simulation(choices& from, const settings& how = {});
    /// Unwinds the actors that have not ended.
    ~simulation();

    /// Adds a host thread that may run forever: `run` does not wait for it. It starts with the next `run`, and
    /// continues through later ones.
    actor_id add_daemon(std::string name, std::function<void()> body);
    /// Adds a host thread that `run` waits for.
    actor_id add_host(std::string name, std::function<void()> body);
    /// Adds the lanes of a kernel: one thread for each lane of each warp of each block. They start with the next `run`,
    /// ordered after all actors that have ended. If an actor adds them, they start at once, ordered after what it did.
    void add_kernel(const std::vector<block_shape>& blocks, std::function<void(thread_position)> body);

    /// Runs until every lane and every host thread that is no daemon has ended, or was stopped. Returns false if a
    /// violation was found, now or earlier; nothing runs afterwards.
    bool run();
    /// Unwinds the actors that have not ended; nothing runs afterwards. For a scenario that is about to destroy what
    /// its daemons use. Actors must not call it.
    void end_all();

    /// Reports a violation unless `holds`. In an actor, this ends the run at once.
    void check(bool holds, std::string_view otherwise);

    /// Stops an actor forever, as if its machine had died; an actor that has ended is left alone. If the running actor
    /// stops itself, this call does not return. `run` does not wait for a stopped actor, nor for lanes that wait for it
    /// in collectives.
    void stop_for_good(actor_id id);
    /// Returns the running actor. Only actors may call it.
    [[nodiscard]] actor_id self() const { return current_; }
    /// Returns all lanes of the kernel added last, in the order of blocks, warps, lanes.
    [[nodiscard]] const std::vector<actor_id>& lanes() const { return lanes_; }

    /// Returns a choice from 0 to n - 1 that a scenario leaves to the seed.
    std::uint32_t pick(std::uint32_t n) { return choices_.choose(decision::scenario, n); }

    /// Names words: word i of `stride` bytes is `name[i]`; a single word is `name`. Values that are addresses in this
    /// range are printed by that name.
    void name_words(const void* first, std::size_t bytes, std::string name, std::size_t stride = 0);
    /// Names bitmaps in the same way. No value of theirs is taken for an address.
    void name_bits(const void* first, std::size_t bytes, std::string name, std::size_t stride = 0);

    /// Marks bytes as owned by the running actor until `disown`. It is a violation if any of them is owned already.
    void own(const void* first, std::size_t bytes, std::string_view what);
    void disown(const void* first);
    /// Returns the number of owned ranges.
    [[nodiscard]] std::size_t owned() const { return owned_.size(); }

    /// The effect of an access to a watched word.
    struct watched_access {
        bool is_load;          ///< true also for a compare-and-swap that failed
        std::uint64_t before;  ///< value read; for a store, the newest value before it
        std::uint64_t after;   ///< value stored
    };
    /// Calls `see` in the actor that has just accessed `word`: for oracles, and to stop an actor at a certain point.
    /// `see` must not access shared words.
    void watch(const volatile void* word, std::function<void(const watched_access&)> see);

    /// Returns the memory, for tests that steer a run by more than its choices (promises, in litmus tests).
    [[nodiscard]] weak_memory& memory() { return memory_; }
    /// See `weak_memory::set_patience`.
    void set_patience(std::uint64_t accesses) { memory_.set_patience(accesses); }

    [[nodiscard]] std::uint64_t now_ns() const { return now_ns_; }
    /// Returns an upper bound of the logical time by which all delays so far can have held up one actor.
    [[nodiscard]] std::uint64_t stood_still_ns() const { return stood_still_ns_; }
    [[nodiscard]] const verdict& result() const { return verdict_; }
    /// Returns the timeline, if the settings keep one.
    [[nodiscard]] const trace& timeline() const { return trace_; }

    // The functions of the seam; actors call them.
    std::uint64_t load(const shared_access& a) override;
    void store(const shared_access& a, std::uint64_t value) override;
    std::uint64_t modify(const shared_access& a, modification what, std::uint64_t operand) override;
    bool compare_exchange(const shared_access& a, order on_failure, std::uint64_t& expected,
                          std::uint64_t desired) override;
    void fence(scope within, site where) override;
    void wait_while(const shared_access& a, std::uint64_t old) override;
    void notify(const volatile void* word) override;
    int lane_id() override;
    thread_position position() override;
    std::uint64_t clock_ns() override;
    lane_mask converge(site where) override;
    std::uint64_t meet(emulated::wait_kind kind, lane_mask mask, std::uint64_t operand, int source,
                       site where) override;
    block_sum sum_in_block(std::uint64_t value, site where) override;
    void pause(std::uint32_t nanoseconds, site where) override;

private:
    /// `sleeping`: in `pause`, or delayed. `waiting`: for a word. `in_block`: for the threads of its block. The others:
    /// as the states of a warp's lanes.
    enum class state : std::uint8_t { ready, sleeping, converging, meeting, waiting, in_block, ended };

    /// Thrown to make an actor leave its body when the run is over. Not a std::exception, so that no handler of the
    /// program catches it.
    struct run_is_over {};

    /// The state of exceptions that the C++ runtime keeps for each thread, with the layout of the ABI's
    /// `__cxa_eh_globals`: the exceptions in handlers, and the number of those on their way to one.
    struct exceptions_of_thread {
        void* handled = nullptr;
        unsigned in_flight = 0;
    };

    /// While an object of this class lives, the seam calls this simulation.
    class in_charge {
    public:
        explicit in_charge(simulation& s) : before_{std::exchange(emulated::current_simulation, &s)} {}
        ~in_charge() { emulated::current_simulation = before_; }
        in_charge(const in_charge&) = delete;
        in_charge& operator=(const in_charge&) = delete;

    private:
        simulation_hooks* before_;
    };

    /// A block, and the actors that are its threads.
    struct block_of_lanes {
        std::vector<actor_id> actors;
        std::uint32_t waiting = 0;  // number of those in `sum_in_block`
        bool any_ended = false;
    };
    /// A warp, and the actors that are its lanes.
    struct warp_of_lanes {
        emulated::warp lanes;
        block_of_lanes* of = nullptr;
        std::uint32_t block = 0;
        std::uint32_t index = 0;  // index in its block
        std::array<actor_id, warp_size> actors{};
    };
    /// A lane or a host thread. Its address stays the same, because its fiber and others point to it.
    struct actor {
        std::string name;
        bool daemon = false;
        bool host = false;
        bool started = false;
        bool stopped = false;  // stopped forever, in whatever state
        bool gathers = false;  // in `converge`: waits for the other lanes of its warp that still run
        state is = state::ready;
        warp_of_lanes* warp = nullptr;  // null: a host thread
        int lane = 0;
        thread_position at{0, 0, 1, 1};
        std::function<void()> body;
        std::unique_ptr<emulated::lane_fiber> fiber;
        exceptions_of_thread exceptions;           // valid while the actor does not run
        std::uint64_t wakes_at = 0;                // in logical time
        std::uint64_t wakes_at_point = 0;          // number of a scheduling point; the earlier of the two counts
        const volatile void* waits_for = nullptr;  // the word, in state `waiting`
        std::uint32_t waits_for_number = 0;        // and its number, for reports
        std::uint64_t summand = 0;                 // of `sum_in_block`
        block_sum sums{};                          // its result
        std::vector<std::uint32_t> shown;          // what the timeline has shown of its knowledge of the others
        const char* doing = "nothing yet";         // the operation it is about to make
        site where{"", 0};
        simulation* in = nullptr;
        actor_id id = 0;
    };

    static constexpr actor_id none = 0xffffffffu;  // no actor: the code of the scenario, or the end of the run
    static constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();
    static constexpr std::uint64_t point_ns = 20;  // the logical time that an operation takes

    actor& add(std::string name, party of, std::function<void()> body);
    actor& me() { return *actors_[current_]; }
    void must_be_own_thread() const;

    // The life of an actor: its body runs in `actor_main` on its own stack. `resume` and `unwind` run on the
    // scheduler's.
    void resume(actor& a);
    static void swap_exceptions(actor& a);
    static void actor_main(void* argument) noexcept;
    void end(actor& a);
    void unwind();

    // The end of a run. Functions of the seam ask `simulated` first: it returns true while the run goes on. After that
    // it throws, or returns false if the caller is a destructor that runs because of an exception.
    bool simulated() { return (!unwinding_ && verdict_.ok()) || leave(); }
    bool leave();
    void give_up(std::string what);
    void note_violation(std::string what);
    void check_length();
    static bool exception_in_flight();

    // The choice of the actor that continues.
    void point(const char* doing, site where);
    static void sleep_until(actor& a, std::uint64_t ns, std::uint64_t point);
    void switch_away();
    actor_id pick_next();
    bool can_run(const actor& a) const;
    bool others_of_warp_run(const actor& a) const;
    bool collect_eligible();
    void leave_converge(const actor& a);
    bool held_by_stopped(const actor& a) const;
    lane_mask held_lanes(const warp_of_lanes& of, bool block_is_held) const;
    void complete_meeting(emulated::wait_kind kind, lane_mask released, site where);
    void complete_sum(block_of_lanes& block);

    template <class Operation>
    auto in_memory(Operation operation) -> decltype(operation());
    void count(emulated::access kind, scope within);

    // The report.
    [[nodiscard]] std::string where_actors_are() const;
    [[nodiscard]] std::string where_is(const actor& a) const;
    void note_access(const shared_access& a, const char* what, const char* outcome = "");
    void tell_watcher(const shared_access& a, bool only_read);
    [[nodiscard]] std::string view_text();
    void note_lanes(const actor& a, const char* operation, lane_mask group, site where);
    void note_event(const actor& a, const char* operation, std::uint64_t number);

    choices& choices_;
    settings settings_;
    weak_memory memory_;
    trace trace_;
    verdict verdict_;
    std::vector<std::unique_ptr<actor>> actors_;
    std::vector<actor*> live_;     // those that have not ended, in the same order
    std::vector<actor_id> ended_;  // the others; of those that were there when an actor was added last, one
    std::vector<std::unique_ptr<warp_of_lanes>> warps_;
    std::vector<std::unique_ptr<block_of_lanes>> blocks_;
    std::vector<actor_id> lanes_;
    std::vector<actor_id> eligible_;  // the actors that can continue now
    std::uint64_t first_wake_ = 0;    // the earliest wake-up of all sleeping actors
    /// Bytes that an actor has marked by `own`.
    struct owned_range {
        const char* first;
        std::size_t bytes;
        actor_id id;
        std::string what;
    };
    std::vector<owned_range> owned_;
    absl::flat_hash_map<const volatile void*, std::function<void(const watched_access&)>> watched_;
    std::uint64_t now_ns_ = 1'000;
    std::uint32_t pause_stretch_ = 1;
    std::uint32_t delays_ = 0;  // number of delays so far
    std::uint64_t stood_still_ns_ = 0;
    std::uint64_t clock_reads_ = 0;
    std::uint64_t calls_when_over_ = 0;
    actor_id current_ = none;   // the actor that runs, or ran last
    actor_id next_ = none;      // the actor that `run` resumes when the running one comes back
    bool in_actor_ = false;     // false: the scheduler or the scenario runs
    bool unwinding_ = false;    // actors leave their bodies; never false again
    bool any_stopped_ = false;  // spares `held_by_stopped` its work in most runs
    std::thread::id owner_ = std::this_thread::get_id();
};

}  // namespace orchard::simt::explore
