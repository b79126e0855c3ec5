// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A study with the model of the driver's paging: patterns, applications and traces, each with every layout, placement,
/// capacity and policy. `orchard uvm` prints it. No kernel runs on a GPU; times are the model's (docs/uvm_model.md).
///
///     (patterns and applications) x layouts x placements x capacities x policies
///     traces                                             x capacities x policies    a trace has its layout recorded
///
/// The layout sync_malloc has one placement, its own.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "uvm/geometry/lane_order.hpp"
#include "uvm/geometry/layout.hpp"
#include "uvm/geometry/portion.hpp"
#include "uvm/model/calibration.hpp"
#include "uvm/model/graph.hpp"
#include "uvm/model/paging_policy.hpp"
#include "uvm/model/placement.hpp"
#include "uvm/model/result.hpp"

namespace orchard::uvm_study {

/// The arrangement of the memory of a warp's lanes.
struct arrangement {
    layout how = layout::linear();
    lane_order order = lane_order::ascending;
    uvm_model::placed_by by = uvm_model::placed_by::service;
    friend bool operator==(const arrangement&, const arrangement&) = default;
};

/// Returns the arrangement for "linear", "sync_malloc", "interleaved:64K", "interleaved:4KiB:prefetch_first"; the tile
/// is written as for `parse_bytes` or as in options. Errors: InvalidArgument that quotes the text and lists the allowed
/// forms.
absl::StatusOr<arrangement> parse_arrangement(std::string_view text);
/// Returns the text that `parse_arrangement` reads.
std::string text_of(const arrangement& a);

/// The size of GPU memory: all of the memory in use, a share of it, or a number of bytes.
struct capacity {
    std::optional<double> share;         ///< of the memory that the threads have
    std::optional<std::uint64_t> bytes;  ///< rounded down to 2 MiB
    [[nodiscard]] bool is_unlimited() const { return !share && !bytes; }
};
/// Returns the capacity for "50%", "4GiB", "unlimited". Errors: those of `parse_arrangement`.
absl::StatusOr<capacity> parse_capacity(std::string_view text);
/// Returns such a text; bytes that are no whole number of a unit are rounded (`format_bytes`).
std::string text_of(const capacity& c);

/// The location of the memory's contents before the kernel begins.
enum class before : std::uint8_t { cpu, nowhere };

/// The advice to the driver about all of the memory.
enum class told : std::uint8_t { nothing, prefer_gpu, prefer_cpu, read_mostly };

/// The parameters of a study, which runs the product of its lists. No list is empty.
struct study {
    std::vector<std::string> patterns;  ///< names of `uvm_model::patterns` and of `applications`
    std::vector<std::string> traces;    ///< files; their addresses do not depend on the layout
    std::vector<arrangement> layouts{arrangement{}};
    std::vector<portion_policy> placements{portion_policy::packed};
    std::vector<capacity> capacities{capacity{}};
    std::vector<uvm_model::paging_policy> policies{uvm_model::paging_policy::driver};
    std::uint64_t threads = 1024;                ///< of patterns and applications; 32 are a warp
    std::uint64_t bytes_per_thread = 256 << 10;  ///< of patterns
    std::uint64_t accesses = 100;                ///< of each thread
    std::uint64_t element_bytes = 4;             ///< of patterns
    std::uint64_t stride = 64 << 10;             ///< bytes between accesses of a thread, of the pattern strided
    tail_policy tails = tail_policy::adjacent;   ///< of patterns and applications
    std::uint64_t scale = 1;                     ///< of applications
    std::uint64_t seed = 1;
    before contents = before::cpu;                ///< where all memory is before the kernel
    told advice = told::nothing;                  ///< the same advice for all memory
    uvm_model::calibration machine;               ///< the constants of the model
    std::shared_ptr<const uvm_model::csr> graph;  ///< for the pattern graph-walk; null: it is created (`graph_for`)
};

/// One cell of the product.
struct outcome {
    std::string source;          ///< the pattern's name, or the trace's file
    std::string how;             ///< the layout; "recorded" for a trace
    std::string placement;       ///< the placement; "first_fit" for sync_malloc, "recorded" for a trace
    std::string memory;          ///< the capacity as it was typed
    std::string policy;          ///< the policy's name
    std::uint64_t bytes = 0;     ///< memory of the threads; for a trace: of its space
    std::uint64_t capacity = 0;  ///< bytes of GPU memory; 0: unlimited
    uvm_model::result counts;    ///< what the model counted
};

/// Called before each cell, with the number of completed cells and of all cells.
using progress = std::function<void(std::size_t done, std::size_t all)>;

/// Runs the whole study. Errors: InvalidArgument for impossible names, numbers or files, each with the allowed values;
/// those of the applications and traces. Cost: 20 to 60 ns for each access, and 0.2 us more for accesses of
/// applications.
absl::StatusOr<std::vector<outcome>> run(const study& s, const progress& tell = {});

}  // namespace orchard::uvm_study
