// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The exploring scheduler: lanes and host threads as actors of one deterministic simulation. One of them runs at a
/// time; before every shared access, collective and wait, choices decide who goes on; memory is weak (`weak_memory`);
/// the clock is logical. Everything that happens is determined by the choices.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
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
    std::uint64_t most_points = 200'000;    ///< scheduling points after which a run counts as livelocked
    bool keep_trace = false;                ///< writes down every operation
    bool races_are_violations = true;       ///< of plain accesses
    bool delays = true;                     ///< actors may stand still for long
    std::uint32_t pause_stretch = 0;        ///< a pause lasts so many times what was asked for; 0: drawn
};

/// The lanes of the warps of one block: {4, 4} is two warps of four lanes each. A warp has 1 to 32.
using block_shape = std::vector<int>;

/// How a run came out.
struct verdict {
    std::string violation;           ///< empty: none was found
    std::uint64_t points = 0;        ///< scheduling points passed
    std::uint64_t trace_hash = 0;    ///< of all that happened; the same for the same run on any machine
    emulated::costs lane_costs;      ///< summed over all lanes
    [[nodiscard]] bool ok() const { return violation.empty(); }
};

/// One run. A scenario makes one, adds actors, and calls `run`, as often as there are kernels:
///
///     s.name_words(&counter, sizeof(counter), "counter");
///     s.add_host("service", [&] { for (;;) { service.poll_once(); simt::pause(500); } });
///     s.add_kernel({{4, 4}, {4}}, [&](thread_position at) { ... });
///     if (s.run()) { s.check(counter == 12, "a count was lost"); }
///
/// Only the thread that made it may use it, and one at a time exists on a thread.
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
    /// `run`, behind all that ended before.
    void add_kernel(const std::vector<block_shape>& blocks, std::function<void(thread_position)> body);

    /// Runs until every lane and every host thread that is no daemon has ended (or was stopped). False: a violation
    /// was found, here or before; nothing runs any more then.
    bool run();

    /// A violation unless `holds`. In an actor it ends the run at once.
    void check(bool holds, std::string_view otherwise);

    /// The actor of that name, from now on, never runs again. In an actor, its own name stops it here.
    void stop_for_good(actor_id who);
    /// Who runs now. Precondition: called by an actor.
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

    [[nodiscard]] std::uint64_t now_ns() const { return now_ns_; }
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
    enum class state : std::uint8_t { ready, sleeping, converging, meeting, waiting, ended, stopped };

    struct warp_of_lanes {
        emulated::warp lanes;
        std::uint32_t block = 0;
        std::uint32_t index = 0;          // in its block
        std::array<actor_id, warp_size> actors{};
    };
    struct actor {
        std::string name;
        bool daemon = false;
        bool host = false;
        state is = state::ready;
        bool started = false;
        warp_of_lanes* warp = nullptr;
        int lane = 0;
        thread_position at{0, 0, 1, 1};
        std::function<void()> body;
        std::unique_ptr<emulated::lane_fiber> fiber;
        std::uint64_t wakes_at = 0;
        const volatile void* waits_for = nullptr;
        const char* doing = "nothing yet";  // the operation it is about to make
        site where{"", 0};
        simulation* in = nullptr;
        actor_id id = 0;
    };

    static void actor_main(void* argument) noexcept;
    actor& add(std::string name, party of, std::function<void()> body);
    actor& me() { return *actors_[current_]; }

    bool simulated();
    void point(const char* doing, site where);
    void switch_away();
    actor_id pick_next();
    void collect_eligible();
    void leave_converge(actor& a);
    void end(actor& a);
    [[noreturn]] void fail(std::string what);
    void note_violation(std::string what);
    void unwind();
    bool held_by_stopped(const actor& a) const;
    [[nodiscard]] std::string who_is_where() const;
    void note_access(const shared_access& a, const char* what);
    void count(emulated::access kind, scope within);

    choices& choices_;
    settings settings_;
    weak_memory memory_;
    trace trace_;
    verdict verdict_;
    std::vector<std::unique_ptr<actor>> actors_;
    std::vector<std::unique_ptr<warp_of_lanes>> warps_;
    std::vector<actor_id> lanes_;
    std::vector<actor_id> eligible_;
    struct owned_range {
        const char* first;
        std::size_t bytes;
        actor_id who;
        std::string what;
    };
    std::vector<owned_range> owned_;
    std::uint64_t now_ns_ = 1'000;
    std::uint32_t pause_stretch_ = 1;
    actor_id current_ = none;
    actor_id next_ = none;
    bool in_actor_ = false;
    bool unwinding_ = false;

    static constexpr actor_id none = 0xffffffffu;
};

}  // namespace orchard::simt::explore
