// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The R-MAT generator; see rmat.hpp. An entry is a cell of the adjacency matrix, found by going from quadrant to
/// quadrant:
///
///     +------+------+      each level chooses a quadrant, and adds one bit to each end:
///     | A    |  B   |      A: from 0, to 0    B: from 0, to 1
///     +------+------+      C: from 1, to 0    D: from 1, to 1
///     | C    |  D   |
///     +------+------+      scale 3, quadrants B, A, D: from = 001, to = 101
///
/// A is the largest: low numbers get most entries, until `random_names` gives the vertices other numbers.

#include "examples/graph/rmat.hpp"

#include <numeric>
#include <utility>
#include <vector>

#include <absl/status/status.h>
#include <absl/strings/str_format.h>

#include "device/simt/random.hpp"
#include "examples/graph/parallel.hpp"

namespace orchard::examples {

namespace {

// The quadrants' probabilities as thresholds of a 32-bit random number: (0,0) below A, (0,1) below A + B, (1,0) below
// A + B + C, otherwise (1,1).
constexpr double quadrant_unit = 4294967296.0;
constexpr auto below_a = static_cast<std::uint32_t>(0.57 * quadrant_unit);
constexpr auto below_ab = static_cast<std::uint32_t>((0.57 + 0.19) * quadrant_unit);
constexpr auto below_abc = static_cast<std::uint32_t>((0.57 + 0.19 + 0.19) * quadrant_unit);

/// The two ends of an entry, or their highest bits so far.
struct ends {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
};

/// Returns the ends with one more bit each: those of the quadrant that `random` chooses.
ends descend(ends at, std::uint32_t random) {
    const std::uint32_t lower = random >= below_ab ? 1 : 0;
    const std::uint32_t right = (random >= below_a && random < below_ab) || random >= below_abc ? 1 : 0;
    return {at.from * 2 + lower, at.to * 2 + right};
}

/// Returns entry number `index`: `scale` choices of a quadrant, two from each hash.
ends entry(const rmat_options& options, std::uint64_t index) {
    const std::uint64_t stream = simt::mix64(simt::mix64(options.seed) ^ index);
    ends at;
    for (int level = 0; level < options.scale; level += 2) {
        const std::uint64_t bits = simt::mix64(stream + static_cast<std::uint64_t>(level));
        at = descend(at, static_cast<std::uint32_t>(bits >> 32));
        if (level + 1 < options.scale) {
            at = descend(at, static_cast<std::uint32_t>(bits));
        }
    }
    return at;
}

/// Returns a random permutation of the vertices, so that a vertex's number does not depend on its degree.
std::vector<std::uint32_t> random_names(std::uint32_t vertices, std::uint64_t seed) {
    std::vector<std::uint32_t> names(vertices);
    std::iota(names.begin(), names.end(), 0u);
    for (std::uint32_t i = vertices; i > 1; --i) {
        std::swap(names[i - 1], names[simt::below32(simt::random_bits(seed, 1, i), i)]);
    }
    return names;
}

}  // namespace

absl::StatusOr<edge_list> generate_rmat(const rmat_options& options, std::uint64_t memory) {
    if (options.scale < 1 || options.scale > 30) {
        return absl::InvalidArgumentError(
            absl::StrFormat("--rmat %d: the scale is log2 of the vertices; give 1 to 30", options.scale));
    }
    if (options.edge_factor < 1 || options.edge_factor > 1024) {
        return absl::InvalidArgumentError(
            absl::StrFormat("--edge-factor %d: entries a vertex; give 1 to 1024", options.edge_factor));
    }
    // At most 2^30 vertices and 2^40 entries: neither number overflows.
    const std::uint32_t vertices = 1u << options.scale;
    const std::uint64_t entries = std::uint64_t{vertices} * static_cast<std::uint64_t>(options.edge_factor);
    absl::Status fits = check_host_memory(
        entries * 2 * sizeof(edge) + std::uint64_t{vertices} * 4,
        absl::StrFormat("a graph of scale %d with %d edges a vertex", options.scale, options.edge_factor), memory);
    if (!fits.ok()) {
        return fits;
    }
    const std::vector<std::uint32_t> names = random_names(vertices, options.seed);
    std::vector<edge> edges(entries);
    parallel_for(entries, [&](std::uint64_t i) {
        const ends e = entry(options, i);
        edges[i] = edge::between(names[e.from], names[e.to]);
    });
    return make_edge_list(vertices, std::move(edges));
}

}  // namespace orchard::examples
