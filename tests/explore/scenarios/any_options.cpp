// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Everything is drawn anew for each run: the options of the heap, how much of it is committed, how long commits and
/// the service take, sizes and calls, and one fault. Whatever is drawn, blocks do not overlap and keep their contents,
/// every request ends in time, and null has a reason that the fault explains. Unless an actor has stopped for good, all
/// memory can be had again at the end.
///
/// Each part has scenarios of its own, which find a fault in it much sooner. This one finds what only several parts
/// together do.

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/strings/str_format.h"
#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

enum class planned : std::uint32_t {
    nothing,
    failing_commits,  ///< the next commits fail
    blocked_commit,   ///< one does not end until all requests have
    silent_service,   ///< a service stands still for long, again and again
    dead_service,     ///< a service stops for good
    dead_lane,        ///< a lane stops for good, at a change of a word that lanes share
    closing,          ///< the host closes the heap
    count_
};

/// Of a request, where waits are to end within the run. Delays of actors come on top.
constexpr std::uint64_t any_timeout_ns = 200'000;

/// From a page of the smallest class to a chunk with a tail.
constexpr std::array<std::uint64_t, 8> any_sizes{16, 48, 1'000, 70'000, 300'000, 524'288, 600'000, 5'000'000};

heap_setup draw_setup(world& w, planned fault) {
    heap_setup u;
    u.segments = w.s.pick(4) == 0 ? 128 : 12 + w.s.pick(40);  // 128: two words of a bitmap
    u.committed_at_start = w.s.pick(3) * u.segments / 2;
    u.extent = 1 + w.s.pick(6);
    u.ahead = w.s.pick(3);
    constexpr std::array<mailbox::shape, 4> shapes{{{4, 8, 1}, {8, 8, 2}, {16, 5, 1, 3}, {64, 8, 4}}};
    u.shape = shapes[w.s.pick(shapes.size())];
    u.cache_target = w.s.pick(5);
    u.portions_by = w.s.pick(2) == 0 ? portion_policy::packed : portion_policy::padded;
    u.refill_batch = 1 + w.s.pick(4);
    // Where nothing is to fail, no deadline ends a request, however long actors stand still.
    u.timeout_ns = fault == planned::nothing ? 1'000'000'000 : any_timeout_ns;
    u.lost_after_ns = 5'000ull << w.s.pick(4);
    u.reclaim_patience_ns = any_timeout_ns / 2;
    // An actor that stops may leave a release half done.
    u.gives_back = fault != planned::dead_service && fault != planned::dead_lane && w.s.pick(3) == 0;
    u.unzeroed = w.s.pick(2) == 0;
    u.hardened = w.s.pick(3) == 0;
    u.service_lives = false;  // `any_world` runs the service
    return u;
}

class any_world {
public:
    explicit any_world(world& w)
        : fault_{static_cast<planned>(w.s.pick(static_cast<std::uint32_t>(planned::count_)))},
          heap{w, draw_setup(w, fault_)} {
        heap.memory.commit_ns = 1'000u << w.s.pick(5);
        heap.s.add_daemon("service", [this] { serve(); });
        switch (fault_) {
            case planned::failing_commits: heap.memory.failures_left = 1 + static_cast<int>(w.s.pick(4)); break;
            case planned::blocked_commit: heap.memory.commits_before_block = static_cast<int>(w.s.pick(4)); break;
            case planned::dead_lane: stop_a_lane(); break;
            default: break;
        }
    }

    /// A lane's requests: it holds at most two blocks.
    void use(int operations) {
        std::array<held, 2> mine{};
        for (int i = 0; i < operations; ++i) {
            one_call(mine[heap.s.pick(2)]);
        }
        for (const held& b : mine) {
            free(b);
        }
    }

    /// Closes the heap after some time.
    void close() {
        simt::pause(heap.s.pick(20) * 2'000);
        heap.close();
    }

    /// Ends what can end. Returns false if the run has failed.
    bool recover() {
        heap.memory.failures_left = 0;
        heap.memory.is_blocked = false;
        heap.memory.commits_before_block = -1;
        silent_ = false;
        heap.setup.gives_back = false;  // the state cannot be checked in the middle of a release
        heap.view.mailbox.timeout_ns = 1'000'000'000;
        heap.ref = heap_ref(heap.view);
        heap.s.add_kernel({{1}}, [this](simt::thread_position) {
            while (heap.grower.is_blocked(0)) {
                simt::pause(50'000);
            }
            if (heap.setup.hardened) {
                device::empty_quarantine(heap.view, 1);
            }
            for (std::uint32_t c = 0; c < class_count; ++c) {
                device::retire_empty_slabs(heap.view, 1, c);
            }
            // The service or growth may stand still in the middle of a release.
            for (int i = 0; i < 20 && !heap.service.validate().ok(); ++i) {
                simt::pause(1'000'000);
            }
        });
        return heap.s.run() && heap.settle({});
    }

    void check_end() {
        if (fault_ == planned::dead_service || fault_ == planned::dead_lane) {
            heap.s.check(heap.service.validate().ok(), "the service's structures disagree");
        } else if (recover()) {
            heap.check_empty();
        }
    }

    [[nodiscard]] planned fault() const { return fault_; }

private:
    /// A block that a lane holds.
    struct held {
        void* at = nullptr;
        std::uint64_t bytes = 0;
    };

    /// Runs the service, with the drawn delays.
    void serve() {
        const bool stops = fault_ == planned::dead_service;
        for (std::uint32_t left = 1 + heap.s.pick(60);; left -= stops ? 1 : 0) {
            if (left == 0) {
                heap.s.stop_for_good(heap.s.self());
            }
            if (heap.service.poll_once() == 0) {
                simt::pause(500);
            }
            if (heap.setup.gives_back && heap.s.pick(8) == 0) {
                heap.service.release_unused(heap.s.pick(3));
            }
            if (fault_ == planned::silent_service && silent_ && heap.s.pick(16) == 0) {
                simt::pause(any_timeout_ns * 2);
            }
        }
    }

    /// Stops the lane that makes one of the first changes of a drawn word.
    void stop_a_lane() {
        device::heap_state& state = *heap.view.state;
        mailbox::device_part& box = *heap.view.mailbox.device;
        const std::array<const volatile void*, 7> words{&state.reclaims,
                                                        &state.refill_in_flight,
                                                        &state.cache_level,
                                                        &box.ticket,
                                                        &box.poller[0],
                                                        &heap.view.cache[0],
                                                        &heap.view.descriptor(heap.s.pick(4))};
        heap.s.watch(words[heap.s.pick(words.size())], [this, left = heap.s.pick(12)](const auto& a) mutable {
            const auto& lanes = heap.s.lanes();
            const bool by_lane = std::ranges::find(lanes, heap.s.self()) != lanes.end();
            if (by_lane && !a.is_load && !stopped_ && left-- == 0) {
                stopped_ = true;
                heap.s.stop_for_good(heap.s.self());
            }
        });
    }

    void free(const held& b) {
        if (b.at != nullptr) {
            heap.give(b.at, b.bytes);
        }
    }

    /// Allocates, resizes or frees, and checks how long it took.
    void one_call(held& b) {
        const std::uint64_t bytes = any_sizes[heap.s.pick(any_sizes.size())];
        const std::uint64_t began = simt::clock_ns();
        if (b.at != nullptr && heap.s.pick(2) == 0) {
            free(b);
            b = {};
        } else if (b.at != nullptr) {
            resize(b, bytes);
        } else {
            b.at = heap.s.pick(4) == 0 ? heap.ref.aligned_alloc(std::uint64_t{64} << heap.s.pick(8), bytes)
                                       : heap.ref.malloc(bytes);
            b.bytes = bytes;
            if (b.at != nullptr) {
                heap.mark(b.at, b.bytes);
            }
        }
        const std::uint64_t waited = simt::clock_ns() - began;
        // The lanes of a warp may ask for three classes one after the other, each of them twice, with a reclaim between
        // that looks 32 times for a response that may be lost; or five groups replace each other in each of two
        // reclaims, with twice the patience each time: 31 deadlines in all (6.2 ms), and what the steps take.
        heap.s.check(fault_ == planned::nothing || waited <= 40 * any_timeout_ns + heap.s.stood_still_ns(),
                     absl::StrFormat("a request of %d B waited for %d ns, longer than forty deadlines", bytes, waited));
    }

    void resize(held& b, std::uint64_t bytes) {
        heap.unmark(b.at, b.bytes);
        void* const moved = heap.ref.realloc(b.at, bytes);
        b = moved != nullptr ? held{moved, bytes} : b;
        heap.mark(b.at, b.bytes);
    }

    planned fault_;
    bool silent_ = true;
    bool stopped_ = false;

public:
    heap_world heap;
};

/// Returns whether the fault explains this reason, or the heap may have been full.
bool explains(planned fault, failure_reason why) {
    switch (why) {
        case failure_reason::none:
        case failure_reason::out_of_memory_device_budget:
        case failure_reason::out_of_memory_virtual_range:
        case failure_reason::fragmented: return true;
        case failure_reason::commit_failed: return fault == planned::failing_commits;
        case failure_reason::closing: return fault == planned::closing;
        // Any actor may stand still for longer than a deadline that is short.
        case failure_reason::commit_blocked:
        case failure_reason::service_not_responding: return fault != planned::nothing;
        default: return false;
    }
}

void run_any_options(world& w) {
    any_world all(w);
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) { all.use(w.size.operations); });
    if (all.fault() == planned::closing) {
        w.s.add_host("closer", [&] { all.close(); });
    }
    if (!w.s.run()) {
        return;
    }
    for (std::uint32_t i = 0; i < failure_reasons; ++i) {
        const auto why = static_cast<failure_reason>(i);
        w.s.check(all.heap.failures(why) == 0 || explains(all.fault(), why),
                  absl::StrFormat("requests failed for reason %d, which nothing explains", i));
    }
    all.check_end();
}

const registrar any_options{{"any_options",
                             "Options, delays, calls and one fault are drawn for each run.",
                             {{{3, 2}, {3}}, 4},
                             run_any_options}};

}  // namespace
}  // namespace orchard::explore
