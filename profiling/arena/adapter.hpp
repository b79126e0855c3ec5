// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The allocators of the arena. One is added by a static object in a source of its own:
///
///     const registrar mine{adapt<my_owner>({.name = "mine", .source = "A paper"})};
///
/// docs/arena.md shows a whole one. A source compiles all cases for the views that it names, so that each family of
/// allocators has one.

#include <algorithm>
#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/published/device_allocator.cuh"
#include "profiling/arena/measure_graph.cuh"
#include "profiling/arena/measure_held.cuh"
#include "profiling/arena/measure_memory.cuh"
#include "profiling/arena/measure_requests.cuh"
#include "profiling/arena/measure_rounds.cuh"
#include "profiling/arena/task.hpp"

/// The commit of other people's code that a source of profiling/adapters is compiled against; the build defines it
/// where it is known.
#ifndef ORCHARD_ADAPTER_COMMIT
#define ORCHARD_ADAPTER_COMMIT ""
#endif

namespace orchard::arena {

/// The owner of an allocator on the host. `ref()` is the view for kernels. `initialise()` makes the allocator empty
/// again; it returns Unimplemented where there is no way to, and it is called while no kernel runs.
template <class O>
concept allocator_owner = requires(O& owner) {
    { owner.ref() } -> device::device_allocator;
    { owner.initialise() } -> std::convertible_to<absl::Status>;
};

/// What the tables say about an allocator.
struct about {
    std::string name;         ///< a word without commas
    std::string source;       ///< the paper, or where it comes from
    bool frees = true;        ///< false: `free` does nothing; the arena empties it before each repetition
    bool floor = false;       ///< others' figures are divided by this one's
    bool needs_cuda = false;  ///< it does not run on the emulated device
    std::uint64_t largest = ~std::uint64_t{0};  ///< bytes of its largest block: cases with larger ones are not offered
    std::string commit = {};  ///< of other people's code: what their checkout was at; empty without such a checkout
};

/// An allocator: runs one case. Errors: the reason why it could not be made.
struct allocator {
    about is;
    std::function<absl::StatusOr<outcome>(const task&)> run;
};

/// Returns the outcome of a case.
template <allocator_owner Owner>
outcome run_case(Owner& owner, bool frees, const task& t) {
    measurement m(t);
    const contestant<Owner> c{owner, frees};
    switch (t.what.what) {
        case kind::malloc_time:
        case kind::free_time:
        case kind::beside:
        case kind::range:
        case kind::work: measure_requests(m, c); break;
        case kind::fill: measure_fill(m, c); break;
        case kind::growth: measure_growth(m, c); break;
        case kind::initialise: measure_initialise(m, c); break;
        case kind::churn: measure_churn(m, c); break;
        case kind::lists: measure_lists(m, c); break;
        case kind::grow: measure_grow(m, c); break;
        case kind::graph_init:
        case kind::graph_update:
        case kind::graph_expand: measure_graph(m, c); break;
        case kind::handover: measure_handover(m, c); break;
        case kind::keep: measure_keep(m, c); break;
        case kind::nearly_full: measure_nearly_full(m, c); break;
        case kind::turn_over: measure_turn_over(m, c); break;
        case kind::streams: measure_streams(m, c); break;
        case kind::malloc_registers: note_registers<allocate_kernel<decltype(owner.ref())>>(m); break;
        case kind::free_registers: note_registers<free_kernel<decltype(owner.ref())>>(m); break;
        case kind::create:
        case kind::atomics: break;  // below
    }
    return m.finish();
}

/// The repetitions of `kind::create`, at most: on a GPU each may take a second.
inline constexpr int most_creations = 5;

/// Returns the allocator that `create(on, bytes)` makes: an `absl::StatusOr<Owner>` with `bytes` of memory.
template <allocator_owner Owner, class Create>
allocator adapt(about a, Create create) {
    return {a, [a, create](const task& t) -> absl::StatusOr<outcome> {
                if (largest_request(t.what) > a.largest || (t.what.what == kind::atomics && !a.floor)) {
                    outcome result;
                    result.ended = verdict::not_offered;
                    return result;
                }
                if (t.what.what == kind::atomics) {
                    measurement m(t);
                    measure_atomics(m);
                    return m.finish();
                }
                if (t.what.what == kind::create) {
                    outcome result;
                    for (int i = 0; i < std::min(t.repeats, most_creations); ++i) {
                        std::optional<absl::StatusOr<Owner>> made;
                        result.values.push_back(microseconds_of([&] { (void)made.emplace(create(t.on, t.memory)); }));
                        if (!made->ok()) {
                            return made->status();
                        }
                    }
                    return result;
                }
                absl::StatusOr<Owner> made = create(t.on, t.memory);
                if (!made.ok()) {
                    return made.status();
                }
                return run_case(*made, a.frees, t);
            }};
}

/// Returns the allocator that `Owner::create(on, bytes)` makes.
template <allocator_owner Owner>
allocator adapt(about a) {
    return adapt<Owner>(std::move(a), Owner::create);
}

/// Registers an allocator before `main`.
class registrar {
public:
    explicit registrar(allocator a);
};

/// Returns all allocators that run on a device: the floor first, then Orchard, then by name.
std::vector<const allocator*> all_allocators(simt::device_kind device);

}  // namespace orchard::arena
