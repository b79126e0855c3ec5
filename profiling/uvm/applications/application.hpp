// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Eight small applications whose accesses are recorded for the model of the driver's paging: docs/uvm_traces.md. They
/// run on the emulated device, on any machine. Nothing is timed: only the order and the addresses of accesses matter.
///
///     run of one application:  heap on the emulated device -> arrays in parts, one for each thread
///                              -> fill (not recorded) -> kernels (recorded) -> compare with a plain loop -> trace
///
/// The choice of the eight applications is that of Zhang et al., AlignMalloc (TPDS 2025), section VII-I.

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "uvm/geometry/lane_order.hpp"
#include "uvm/geometry/layout.hpp"
#include "uvm/geometry/portion.hpp"
#include "uvm/model/placement.hpp"
#include "uvm/model/trace_file.hpp"

namespace orchard::applications {

/// The kind of addresses in a trace.
enum class addresses : std::uint8_t {
    in_order,  ///< the addresses of `uvm_model::placement`, array after array: the same in each run
    of_heap,   ///< the addresses from the heap, which places small blocks at random
};

/// The parameters of an application. Each application defines the meaning of `scale`.
struct parameters {
    std::uint64_t threads = 256;    ///< 1 to 2^20; warps are those of blocks of 64
    std::uint64_t scale = 1;        ///< memory of a thread, and its work, in units of the application; 1 to 2^20
    layout how = layout::linear();  ///< `linear` or `interleaved`: of the threads' arrays
    lane_order order = lane_order::ascending;          ///< positions of the lanes in an interleaved chunk
    portion_policy portions = portion_policy::packed;  ///< how the warps' chunks share VA blocks
    tail_policy tails = tail_policy::adjacent;         ///< where the rest of a chunk beyond whole VA blocks lies
    addresses which = addresses::in_order;
    uvm_model::placed_by by = uvm_model::placed_by::service;  ///< of addresses `in_order`
    std::uint64_t seed = 1;                                   ///< of the initial numbers and graphs
};

/// One application. `run` creates a heap on the emulated device, in which each thread allocates its part of all arrays.
/// It fills the arrays without recording, runs its kernels with recording, and compares their results with those of a
/// plain loop on the host.
///
/// Errors: InvalidArgument for impossible parameters; those of `heap::create`; ResourceExhausted, with the heap's
/// reason, if it ran out of memory; Internal if a launch failed or a result is wrong. Cost: 16 B of memory and about
/// 0.2 us for each access.
struct application {
    std::string_view name;  ///< as `orchard uvm --pattern` names it
    std::string_view help;  ///< one line, with the unit of `scale`
    absl::StatusOr<uvm_model::trace> (*run)(const parameters&);
};

/// Returns all eight applications.
std::span<const application> applications();
/// Returns the application called `name`. Errors: InvalidArgument with the known names.
absl::StatusOr<application> application_named(std::string_view name);

/// The `run` of each application; its file describes the kernel.
absl::StatusOr<uvm_model::trace> gemm(const parameters& p);
absl::StatusOr<uvm_model::trace> stencil(const parameters& p);
absl::StatusOr<uvm_model::trace> k_means(const parameters& p);
absl::StatusOr<uvm_model::trace> bfs(const parameters& p);
absl::StatusOr<uvm_model::trace> spmv(const parameters& p);
absl::StatusOr<uvm_model::trace> b_plus_tree(const parameters& p);
absl::StatusOr<uvm_model::trace> alex_net(const parameters& p);
absl::StatusOr<uvm_model::trace> gcn(const parameters& p);

}  // namespace orchard::applications
