// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Runs the grid of recommendations: one study for each pattern, size and candidate, whose times are then averaged as
/// logarithms.

#include "profiling/uvm/recommend.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "uvm/model/patterns.hpp"

namespace orchard::uvm_study {
namespace {

/// The capacities of the grid that are smaller than the memory. They follow a first capacity that holds all of it.
constexpr std::array<double, 2> shares{0.75, 0.5};
constexpr std::size_t capacities = 1 + shares.size();

/// The modelled times of one candidate at one size: all memory fits, then `shares`.
using seconds_by_capacity = std::array<double, capacities>;

/// Returns the layout to run for a candidate's: `automatic` stands for a tile of one element, which the model needs as
/// a number of bytes.
layout of_elements(layout how) {
    return how == layout::automatic() ? layout::interleaved(tile_of(grid_element_bytes)) : how;
}

/// Returns the simplest candidate with exactly the model's results for `c`. If a tile holds all bytes of a lane, lanes
/// lie one after another. Rows of at most one page have the same bytes of each lane in the same pages. If a warp's
/// chunk consists of whole VA blocks, there are no portions to pad.
candidate simplest_like(candidate c, std::uint64_t bytes_per_thread) {
    const layout how = of_elements(c.how);
    if (how.which == layout::choice::interleaved && bytes_of(how.turn) >= bytes_per_thread) {
        c.how = layout::linear();
    } else if (how.which == layout::choice::interleaved && bytes_of(how.turn) * max_lanes <= os_page_bytes) {
        c.how = layout::automatic();
    }
    if (bytes_per_thread * max_lanes % segment_bytes == 0) {
        c.placed = portion_policy::packed;
    }
    return c;
}

/// Returns the study of one pattern and size, with all capacities. Patterns that go through a whole array access each
/// element once; others make a fixed number of accesses.
study study_of(const grid& g, access_pattern pattern, std::uint64_t bytes_per_thread) {
    const bool all_elements = pattern == access_pattern::sequential || pattern == access_pattern::growth;
    study s;
    s.patterns = {std::string(name_of(pattern))};
    s.capacities = {capacity{}};
    for (const double share : shares) {
        s.capacities.push_back({share, std::nullopt});
    }
    s.threads = g.bytes / bytes_per_thread;
    s.bytes_per_thread = bytes_per_thread;
    s.element_bytes = grid_element_bytes;
    s.accesses = all_elements ? bytes_per_thread / grid_element_bytes : g.accesses;
    s.stride = std::min(g.stride, bytes_per_thread / 4);
    s.seed = g.seed;
    s.contents = g.contents;
    s.advice = g.advice;
    s.machine = g.machine;
    return s;
}

/// The grid while it runs.
class running_grid {
public:
    running_grid(const grid& g, const progress& tell) : grid_{g}, tell_{tell} {}

    /// Returns means of logarithms of times for one pattern: if memory fits, and if it does not. Logarithms, because a
    /// geometric mean weighs a factor of two the same at each size, whatever the times are. Errors: those of `run`.
    absl::StatusOr<std::array<scores, 2>> run(access_pattern pattern) {
        std::array<scores, 2> sums{};
        for (const std::uint64_t bytes : grid_.bytes_per_thread) {
            const auto times = times_of(pattern, bytes);
            if (!times.ok()) {
                return times.status();
            }
            // Each size weighs the same; of the smaller capacities, each of the two weighs half.
            const double sizes = static_cast<double>(grid_.bytes_per_thread.size());
            for (std::size_t c = 0; c < candidates.size(); ++c) {
                sums[0][c] += std::log((*times)[c].front()) / sizes;
                for (std::size_t i = 1; i < capacities; ++i) {
                    sums[1][c] += std::log((*times)[c][i]) / sizes / static_cast<double>(shares.size());
                }
            }
        }
        return sums;
    }

private:
    /// Returns the times of all candidates at one size.
    absl::StatusOr<std::array<seconds_by_capacity, candidates.size()>> times_of(access_pattern pattern,
                                                                                std::uint64_t bytes) {
        study s = study_of(grid_, pattern, bytes);
        if (absl::Status made = make_graph(s, pattern); !made.ok()) {
            return made;
        }
        std::array<seconds_by_capacity, candidates.size()> times{};
        for (std::size_t c = 0; c < candidates.size(); ++c) {
            if (tell_) {
                tell_(done_++, grid_.patterns.size() * grid_.bytes_per_thread.size() * candidates.size());
            }
            const candidate like = simplest_like(candidates[c], bytes);
            // The model would compute the same counts again.
            if (like != candidates[c]) {  // an earlier candidate, which was already run
                times[c] = times[static_cast<std::size_t>(std::ranges::find(candidates, like) - candidates.begin())];
                continue;
            }
            s.layouts = {{of_elements(like.how), lane_order::ascending}};
            s.placements = {like.placed};
            const auto cells = uvm_study::run(s);
            if (!cells.ok()) {
                return cells.status();
            }
            // Cells come in the order of capacities: there is one layout and one placement.
            for (std::size_t i = 0; i < capacities; ++i) {
                times[c][i] = (*cells)[i].counts.seconds;
            }
        }
        return times;
    }

    /// Makes the graph of `graph_walk` once. One graph serves all sizes, because their elements are equally many.
    absl::Status make_graph(study& s, access_pattern pattern) {
        if (pattern == access_pattern::graph_walk && graph_ == nullptr) {
            uvm_model::pattern_parameters p;
            p.memory = {s.threads, s.bytes_per_thread, s.element_bytes};
            p.seed = s.seed;
            auto made = uvm_model::graph_for(p);
            if (!made.ok()) {
                return made.status();
            }
            graph_ = *std::move(made);
        }
        s.graph = graph_;
        return absl::OkStatus();
    }

    const grid& grid_;
    const progress& tell_;
    std::size_t done_ = 0;  ///< cells that were run or copied, for progress
    std::shared_ptr<const uvm_model::csr> graph_;
};

/// Returns the verdict for means of logarithms.
verdict verdict_of(access_pattern pattern, bool fits, const scores& logarithms) {
    verdict v{pattern, fits, {}, 0};
    std::ranges::transform(logarithms, v.seconds.begin(), [](double l) { return std::exp(l); });
    v.best = choose(v.seconds);
    return v;
}

}  // namespace

std::size_t choose(const scores& seconds) {
    // `candidates` are in order of simplicity: the first one within 2 % is the simplest.
    constexpr double tie = 1.02;
    const double least = *std::ranges::min_element(seconds);
    const auto first = std::ranges::find_if(seconds, [&](double s) { return s <= tie * least; });
    return static_cast<std::size_t>(first - seconds.begin());
}

absl::StatusOr<std::vector<verdict>> recommend(const grid& g, const progress& tell) {
    running_grid all(g, tell);
    std::array<scores, 2> of_all{};
    // The two of all patterns come first, and are filled last.
    std::vector<verdict> verdicts(2);  // of all patterns
    for (const access_pattern pattern : g.patterns) {
        const auto logarithms = all.run(pattern);
        if (!logarithms.ok()) {
            return logarithms.status();
        }
        for (std::size_t i = 0; i < of_all.size(); ++i) {
            verdicts.push_back(verdict_of(pattern, i == 0, (*logarithms)[i]));
            for (std::size_t c = 0; c < candidates.size(); ++c) {
                of_all[i][c] += (*logarithms)[i][c] / static_cast<double>(g.patterns.size());
            }
        }
    }
    for (std::size_t i = 0; i < of_all.size(); ++i) {
        verdicts[i] = verdict_of(access_pattern::unknown, i == 0, of_all[i]);
    }
    return verdicts;
}

}  // namespace orchard::uvm_study
