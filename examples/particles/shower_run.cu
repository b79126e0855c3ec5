// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The passes of a shower; see shower_run.hpp.
///
///     run_in_heap, run_in_pool
///       follow                begin_showers, then follow_showers until every particle has ended, or one gets no memory
///         before_pass           heap: trim, migrate      pool: next_pass, end_pass
///       free_showers          what is left of a run that ended too early

#include "examples/particles/shower_run.hpp"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "examples/particles/fixed_pool.cuh"
#include "examples/particles/shower_kernels.cuh"
#include "examples/report/kernel_steps.hpp"
#include "examples/walk/walk_result.hpp"
#include "runtime/nvtx/phase.hpp"

namespace orchard::examples {
namespace {

using simt::order;

/// The passes in one kind of memory.
template <class Memory>
class shower_passes {
public:
    shower_passes(const simt::executor& on, const Memory& memory, const shower_options& options)
        : on_{timed(on)}, memory_{memory}, options_{options} {}

    /// Runs to the end. `before_pass(pass)` prepares a pass, and `after_pass(pass)` notes what memory holds after it.
    template <class Before, class After>
    absl::Status follow(shower_result& result, command_line::progress& bar, const Before& before_pass,
                        const After& after_pass) {
        absl::Status status = make(on_, options_.primaries, families_);
        status.Update(make(on_, 1, counts_));
        bar.begin("following particles", options_.primaries * options_.rule.energy_kev);
        const stopwatch time;
        std::uint64_t deposited = 0;
        for (bool begun = false; status.ok(); begun = true) {
            const nvtx::phase marked(begun ? nvtx::phase::compute : nvtx::phase::build);
            shower_pass pass;
            status.Update(before_pass(pass));
            status.Update(status.ok() ? run_pass(begun, pass) : status);
            status.Update(status.ok() ? read(result) : status);
            status.Update(status.ok() ? after_pass(pass) : status);
            if (!status.ok()) {
                break;
            }
            pass.alive = result.totals.particles - result.totals.ended;
            result.peak_alive = std::max(result.peak_alive, pass.alive);
            result.kernel_seconds += pass.kernel_us * 1e-6;
            result.passes.push_back(pass);
            std::uint64_t now = 0;
            for (const std::uint64_t kev : result.totals.deposited_kev) {
                now += kev;
            }
            bar.add(now - deposited);
            deposited = now;
            result.is_complete = pass.alive == 0 && result.refused == 0;
            if (pass.alive == 0 || result.refused != 0) {
                break;
            }
        }
        result.seconds = time.seconds();
        bar.clear();
        return status;
    }

    /// Frees all tracks.
    absl::Status free_all() {
        const nvtx::phase marked(nvtx::phase::free);
        return to_status(simt::launch(on_, simt::grid_for(options_.primaries),
                                      free_showers<Memory>{memory_, families_.data(), options_.primaries}));
    }

private:
    absl::Status run_pass(bool begun, shower_pass& pass) {
        const simt::grid shape = simt::grid_for(options_.primaries);
        const simt::launch_result done =
            begun ? simt::launch(on_, shape,
                                 follow_showers<Memory>{memory_, options_.rule, options_.track_bytes, options_.steps,
                                                        options_.primaries, families_.data(), counts_.data()})
                  : simt::launch(on_, shape,
                                 begin_showers<Memory>{memory_, options_.rule, options_.track_bytes, options_.primaries,
                                                       families_.data(), counts_.data()});
        pass.kernel_us = done.microseconds;
        return to_status(done);
    }

    absl::Status read(shower_result& result) const {
        shower_counts now{};
        if (absl::Status s = copy_to_host(on_, &now, counts_.data(), sizeof(now)); !s.ok()) {
            return s;
        }
        result.totals.particles = now.particles.template load<order::relaxed>();
        result.totals.ended = now.ended.template load<order::relaxed>();
        result.totals.steps = now.steps.template load<order::relaxed>();
        result.refused = now.no_memory.template load<order::relaxed>();
        result.wrong = now.wrong.template load<order::relaxed>();
        for (std::uint32_t layer = 0; layer < shower_layers; ++layer) {
            result.totals.deposited_kev[layer] = now.deposited_kev[layer].template load<order::relaxed>();
        }
        return absl::OkStatus();
    }

    simt::executor on_;
    Memory memory_;
    shower_options options_;
    device_array<track*> families_;
    device_array<shower_counts> counts_;
};

/// The pool's memory.
struct pool_memory {
    device_array<char> slots;
    device_array<std::uint32_t> free_now;
    device_array<std::uint32_t> freed;
    device_array<pool_counts> counts;

    static absl::StatusOr<pool_memory> make(const simt::executor& on, std::uint64_t slots, std::uint64_t slot_bytes) {
        pool_memory made;
        absl::Status status = examples::make(on, slots * slot_bytes, made.slots);
        status.Update(examples::make(on, slots, made.free_now));
        status.Update(examples::make(on, slots, made.freed));
        status.Update(examples::make(on, 1, made.counts));
        return status.ok() ? absl::StatusOr<pool_memory>(std::move(made)) : status;
    }
};

}  // namespace

absl::StatusOr<shower_result> run_in_heap(heap& h, const shower_options& options, command_line::progress& bar) {
    shower_passes<heap_ref> passes(h.executor(), h.ref(), options);
    absl::Status status = h.preload<begin_showers<heap_ref>, follow_showers<heap_ref>, free_showers<heap_ref>>();
    shower_result result;
    bool moves = h.configuration().move_unit != 0;
    std::uint64_t trimmed_at = 0;  // tracks alive when memory was last given back; 0: none were
    const auto before_pass = [&](shower_pass& pass) {
        const std::uint64_t alive = result.passes.empty() ? 0 : result.passes.back().alive;
        // Beyond its peak the shower gives memory back, each time that half of the tracks have ended.
        if (alive < result.peak_alive / 2 && (trimmed_at == 0 || alive < trimmed_at / 2)) {
            trimmed_at = alive;
            if (absl::Status s = h.trim(); !s.ok()) {
                return s;
            }
        }
        if (!moves || result.passes.empty()) {
            return absl::OkStatus();
        }
        const nvtx::phase marked(nvtx::phase::migrate);
        const auto moved = h.migrate();
        pass.moved_bytes = moved.ok() ? moved->to_device_bytes + moved->to_host_bytes : 0;
        moves = !absl::IsFailedPrecondition(moved.status());  // without a tier of the host nothing moves
        return moves ? moved.status() : absl::OkStatus();
    };
    const auto after_pass = [&](shower_pass& pass) {
        const auto now = h.stats();
        if (now.ok()) {
            pass.host_bytes = now->host_bytes;
            pass.device_bytes = now->committed_bytes - now->host_bytes;
        }
        return now.status();
    };
    status.Update(status.ok() ? passes.follow(result, bar, before_pass, after_pass) : status);
    if (const auto failed = h.first_failure(); failed) {
        result.why = to_text(*failed);
    }
    status.Update(status.ok() ? passes.free_all() : status);
    status.Update(status.ok() ? h.trim() : status);
    return status.ok() ? absl::StatusOr<shower_result>(std::move(result)) : status;
}

absl::StatusOr<shower_result> run_in_pool(const simt::executor& on, std::uint64_t slots, const shower_options& options,
                                          command_line::progress& bar) {
    if (slots == 0 || slots >> 32 != 0) {
        return absl::InvalidArgumentError(
            absl::StrFormat("a pool of %d slots: give 1 to 4,294,967,295, by --pool or --capacity", slots));
    }
    auto memory = pool_memory::make(on, slots, options.track_bytes);
    if (!memory.ok()) {
        return memory.status();
    }
    const fixed_pool pool{memory->slots.data(), options.track_bytes, memory->free_now.data(), memory->freed.data(),
                          memory->counts.data()};
    const auto run = [&](simt::grid shape, const auto& kernel) { return to_status(simt::launch(on, shape, kernel)); };
    absl::Status status = run(simt::grid_for(slots), fill_pool{pool, slots});
    shower_passes<fixed_pool> passes(on, pool, options);
    shower_result result;
    const auto before_pass = [&](shower_pass&) {
        absl::Status done = run({1, 256}, next_pass{pool});
        done.Update(done.ok() ? run({1, 1}, end_pass{pool}) : done);
        return done;
    };
    const auto after_pass = [&](shower_pass& pass) {
        pass.device_bytes = slots * options.track_bytes;
        return absl::OkStatus();
    };
    status.Update(status.ok() ? passes.follow(result, bar, before_pass, after_pass) : status);
    return status.ok() ? absl::StatusOr<shower_result>(std::move(result)) : status;
}

}  // namespace orchard::examples
