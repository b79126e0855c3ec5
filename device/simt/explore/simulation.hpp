// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The exploring scheduler: lanes and host threads as actors of one deterministic simulation. One of them runs at a
/// time; before every shared access, collective and wait, choices decide which actor goes on; memory is weak
/// (`weak_memory`); the clock is logical. Everything that happens is determined by the choices.

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
#include "device/simt/emulated/hooks.hpp"
#include "device/simt/emulated/lane_fiber.hpp"
#include "device/simt/emulated/warp.hpp"
#include "device/simt/explore/choices.hpp"
#include "device/simt/explore/trace.hpp"
#include "device/simt/explore/weak_memory.hpp"

namespace orchard::simt::explore {

/// What a simulation is to do, beside its choices.
struct settings {
    std::uint64_t most_points = 200'000;  ///< scheduling points, in all, after which a run counts as livelocked
    bool keep_trace = false;              ///< writes down every operation
    bool races_are_violations = true;     ///< of plain accesses
    std::uint32_t delays = 12;            ///< how often, in all, actors may stand still for long
    std::uint32_t pause_stretch = 0;      ///< a pause lasts so many times what was asked for; 0: drawn
};

/// The lanes of the warps of one block: {4, 4} is two warps of four lanes each. A warp has 1 to 32.
using block_shape = std::vector<int>;

/// How a run came out.
struct verdict {
    std::string violation;         ///< empty: none was found
    std::uint64_t points = 0;      ///< scheduling points passed
    std::uint64_t trace_hash = 0;  ///< of all that happened; the same for the same run on any machine
    emulated::costs lane_costs;    ///< summed over all lanes
    [[nodiscard]] bool ok() const { return violation.empty(); }
};

/// One run. A scenario makes one, adds actors, and calls `run`, as often as there are kernels:
///
///     s.name_words(&counter, sizeof(counter), "counter");
///     s.add_host("service", [&] { for (;;) { service.poll_once(); simt::pause(500); } });
///     s.add_kernel({{4, 4}, {4}}, [&](thread_position at) { ... });
///     if (s.run()) { s.check(counter == 12, "a count was lost"); }
///
/// What an actor does goes through the seam; what the scenario does outside goes to memory at once, and the next `run`
/// takes it up as something that everybody knows.
///
/// When a run ends early, the actors are taken out of their bodies by an exception of a type that nobody else knows:
/// destructors on their stacks run, once. Calls of the seam while an exception is in flight happen, but nobody else
/// runs meanwhile; once the run is over they do nothing. So a destructor may call the seam, but must be declared
/// `noexcept(false)` where it also does so without an exception, and no handler may keep an exception of unknown type.
///
/// Only the thread that made it may use it, and one at a time runs on a thread.
class simulation final : public emulated::simulation_hooks {
public:
    explicit simulation(choices& from, const settings& how = {});
    /// Unwinds the actors that have not ended.
    ~simulation();

    /// Adds a host thread that may run for ever: `run` does not wait for it. It starts with the next `run`, and goes on
    /// through later ones.
    actor_id add_daemon(std::string name, std::function<void()> body);
    /// Adds a host thread that `run` waits for.
    actor_id add_host(std::string name, std::function<void()> body);
    /// Adds the lanes of a kernel: one thread for each lane of each warp of each block. They start with the next
    /// `run`, behind all that ended before; where an actor adds them, at once, and behind what it did.
    void add_kernel(const std::vector<block_shape>& blocks, std::function<void(thread_position)> body);

    /// Runs until every lane and every host thread that is no daemon has ended (or was stopped). False: a violation
    /// was found, here or before; nothing runs any more then.
    bool run();
    /// Unwinds the actors that have not ended; nothing runs any more. For a scenario whose daemons use what it is about
    /// to destroy. Not for actors.
    void end_all();

    /// A violation unless `holds`. In an actor it ends the run at once.
    void check(bool holds, std::string_view otherwise);

    /// The actor of that name, from now on, never runs again, as if its machine had died; one that has ended is left
    /// alone. In an actor, its own name stops it here. `run` does not wait for it, nor for lanes that wait for it in
    /// collectives.
    void stop_for_good(actor_id who);
    /// Returns the actor that runs now. Precondition: called by an actor.
    [[nodiscard]] actor_id self() const { return current_; }
    /// All lanes of the kernel added last; in order of blocks, warps, lanes.
    [[nodiscard]] const std::vector<actor_id>& lanes() const { return lanes_; }

    /// A choice that a scenario leaves to the seed: 0 to n - 1.
    std::uint32_t pick(std::uint32_t n) { return choices_.choose(decision::scenario, n); }

    /// Gives words a name: word i of `stride` bytes each is called `name[i]`, a single one `name`. Values that are
    /// addresses in here are written as such.
    void name_words(const void* first, std::size_t bytes, std::string name, std::size_t stride = 0);

    /// Marks bytes as owned by the actor that runs, until `disown`: a violation where any of them is owned already.
    void own(const void* first, std::size_t bytes, std::string_view what);
    void disown(const void* first);
    /// Ranges owned now.
    [[nodiscard]] std::size_t owned() const { return owned_.size(); }

    /// What an access of a watched word did.
    struct watched_access {
        bool is_load;          ///< also a compare-and-swap that failed
        std::uint64_t before;  ///< value read, or the newest before a store
        std::uint64_t after;   ///< value stored
    };
    /// Calls `see` in the actor that has just accessed `word`: for oracles, and to stop an actor at a certain place.
    /// It may not access shared words itself.
    void watch(const volatile void* word, std::function<void(const watched_access&)> see);

    /// For tests that steer a run by more than its choices (promises, in litmus tests).
    [[nodiscard]] weak_memory& memory() { return memory_; }
    /// As `weak_memory::set_patience`.
    void set_patience(std::uint64_t accesses) { memory_.set_patience(accesses); }

    [[nodiscard]] std::uint64_t now_ns() const { return now_ns_; }
    /// Returns the most logical time by which all delays so far, of all actors, can have held one of them up.
    [[nodiscard]] std::uint64_t stood_still_ns() const { return stood_still_ns_; }
    [[nodiscard]] const verdict& result() const { return verdict_; }
    /// The timeline, where the settings keep one.
    [[nodiscard]] const trace& timeline() const { return trace_; }

    // What the seam calls, by actors.
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
    void pause(std::uint32_t nanoseconds, site where) override;

private:
    enum class state : std::uint8_t { ready, sleeping, converging, meeting, waiting, ended };

    /// Takes an actor out of its body when the run is over. Not a std::exception: nobody's handler is for it.
    struct run_is_over {};

    /// What the C++ runtime keeps of exceptions for a thread.
    struct exceptions_of_thread {
        void* handled = nullptr;
        unsigned in_flight = 0;
    };

    /// While it lives, the seam leads here.
    class in_charge {
    public:
        explicit in_charge(simulation& s) : before_{std::exchange(emulated::current_simulation, &s)} {}
        ~in_charge() { emulated::current_simulation = before_; }
        in_charge(const in_charge&) = delete;
        in_charge& operator=(const in_charge&) = delete;

    private:
        simulation_hooks* before_;
    };

    struct warp_of_lanes {
        emulated::warp lanes;
        std::uint32_t block = 0;
        std::uint32_t index = 0;  // in its block
        std::array<actor_id, warp_size> actors{};
    };
    struct actor {
        std::string name;
        bool daemon = false;
        bool host = false;
        bool started = false;
        bool stopped = false;  // for good, whatever its state
        bool gathers = false;  // in `converge`: waits for the others of its warp that still run
        state is = state::ready;
        warp_of_lanes* warp = nullptr;
        int lane = 0;
        thread_position at{0, 0, 1, 1};
        std::function<void()> body;
        std::unique_ptr<emulated::lane_fiber> fiber;
        exceptions_of_thread exceptions;   // while it does not run
        std::uint64_t wakes_at = 0;        // logical time
        std::uint64_t wakes_at_point = 0;  // whichever comes first
        const volatile void* waits_for = nullptr;
        std::uint32_t waits_for_number = 0;
        std::vector<std::uint32_t> shown;   // what the timeline has said that it knows of the others
        const char* doing = "nothing yet";  // the operation it is about to make
        site where{"", 0};
        simulation* in = nullptr;
        actor_id id = 0;
    };

    static constexpr actor_id none = 0xffffffffu;
    static constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();
    static constexpr std::uint64_t point_ns = 20;  // logical time that an operation takes

    actor& add(std::string name, party of, std::function<void()> body);
    actor& me() { return *actors_[current_]; }
    void must_be_own_thread() const;

    // Life of an actor.
    void resume(actor& a);
    static void swap_exceptions(actor& a);
    static void actor_main(void* argument) noexcept;
    void end(actor& a);
    void unwind();

    // The end of a run.
    bool simulated() { return (!unwinding_ && verdict_.ok()) || leave(); }
    bool leave();
    void give_up(std::string what);
    void note_violation(std::string what);
    void check_length();
    static bool exception_in_flight();

    // Which actor goes on.
    void point(const char* doing, site where);
    static void sleep_until(actor& a, std::uint64_t ns, std::uint64_t point);
    void switch_away();
    actor_id pick_next();
    bool can_run(const actor& a) const;
    bool others_of_warp_run(const actor& a) const;
    bool collect_eligible();
    void leave_converge(const actor& a);
    bool held_by_stopped(const actor& a) const;
    void complete_meeting(emulated::wait_kind kind, lane_mask released, site where);

    template <class Operation>
    auto in_memory(Operation operation) -> decltype(operation());
    void count(emulated::access kind, scope within);

    // What is said of it.
    [[nodiscard]] std::string who_is_where() const;
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
    std::vector<std::unique_ptr<warp_of_lanes>> warps_;
    std::vector<actor_id> lanes_;
    std::vector<actor_id> eligible_;  // who can go on now
    std::uint64_t first_wake_ = 0;    // of those that sleep
    struct owned_range {
        const char* first;
        std::size_t bytes;
        actor_id who;
        std::string what;
    };
    std::vector<owned_range> owned_;
    absl::flat_hash_map<const volatile void*, std::function<void(const watched_access&)>> watched_;
    std::uint64_t now_ns_ = 1'000;
    std::uint32_t pause_stretch_ = 1;
    std::uint32_t delays_ = 0;  // that there were
    std::uint64_t stood_still_ns_ = 0;
    std::uint64_t clock_reads_ = 0;
    std::uint64_t calls_when_over_ = 0;
    actor_id current_ = none;
    actor_id next_ = none;
    bool in_actor_ = false;
    bool unwinding_ = false;
    bool any_stopped_ = false;
    std::thread::id owner_ = std::this_thread::get_id();
};

}  // namespace orchard::simt::explore
