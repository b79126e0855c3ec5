// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Runs the analyses on rows of either kind, and copies their results to the host.

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "examples/dynamic_graph/analyses.hpp"
#include "examples/dynamic_graph/analyses_kernels.cuh"
#include "examples/dynamic_graph/invariants.cuh"
#include "examples/report/kernel_steps.hpp"
#include "runtime/nvtx/phase.hpp"

namespace orchard::examples {

/// What `invariant_counts` has counted.
struct invariant_sums {
    std::uint64_t wrong = 0;
    std::uint64_t edges = 0;
    std::uint64_t marks = 0;
};

/// The memory of the analyses, for a graph of a number of vertices. Errors of all functions: those of the device.
class analysis_runner {
public:
    static absl::StatusOr<analysis_runner> create(const simt::executor& on, std::uint32_t vertices) {
        analysis_runner made(on, vertices);
        const absl::Status s = made.prepare();
        return s.ok() ? absl::StatusOr<analysis_runner>(std::move(made)) : s;
    }

    /// Returns the result of one analysis.
    template <class Rows>
    absl::StatusOr<analysis_result> run(analysis what, const Rows& rows, const analysis_settings& settings) {
        const nvtx::phase marked(nvtx::phase::compute, vertices_);
        kernel_us_ = 0;
        analysis_result r;
        absl::Status s;
        switch (what) {
            case analysis::bfs: s.Update(search(rows, settings.source)); break;
            case analysis::sssp: s.Update(paths(rows, settings.source)); break;
            case analysis::pagerank: s.Update(ranks(rows, settings.rank_steps)); break;
            case analysis::components: s.Update(components(rows)); break;
            case analysis::triangles: s.Update(triangles(rows, r.count)); break;
            case analysis::kcore: s.Update(cores(rows)); break;
        }
        if (what == analysis::pagerank) {
            r.values.resize(vertices_);
            s.Update(s.ok() ? rank_.download(r.values) : s);
        } else if (what == analysis::sssp) {
            r.values.resize(vertices_);
            s.Update(s.ok() ? copy_to_host(on_, r.values.data(), length_.data(), r.values.size() * sizeof(double)) : s);
        } else if (what != analysis::triangles) {
            r.words.resize(vertices_);
            s.Update(s.ok() ? copy_to_host(on_, r.words.data(), first_.data(), r.words.size() * sizeof(std::uint32_t))
                            : s);
        }
        r.kernel_us = kernel_us_;
        return s.ok() ? absl::StatusOr<analysis_result>(std::move(r)) : s;
    }

    /// Returns what `check_rows` counts of rows.
    template <class Rows>
    absl::StatusOr<invariant_sums> check(const Rows& rows, bool has_weights) {
        return counted(rows, check_rows{vertices_, has_weights, counts_.data()});
    }
    /// Returns what is wrong with the result of the last `run`, by the invariants of invariants.cuh; 0 of PageRank and
    /// of triangles, which have none there.
    template <class Rows>
    absl::StatusOr<std::uint64_t> violations(analysis what, const Rows& rows, const analysis_settings& settings) {
        const auto wrong = [](const absl::StatusOr<invariant_sums>& sums) {
            return sums.ok() ? absl::StatusOr<std::uint64_t>(sums->wrong) : sums.status();
        };
        invariant_counts* const to = counts_.data();
        switch (what) {
            case analysis::bfs: return wrong(counted(rows, check_levels{first_.data(), settings.source, to}));
            case analysis::sssp: return wrong(counted(rows, check_lengths{length_.data(), settings.source, to}));
            case analysis::components: return wrong(counted(rows, check_labels{first_.data(), to}));
            case analysis::kcore: return wrong(counted(rows, check_cores{first_.data(), to}));
            case analysis::pagerank:
            case analysis::triangles: break;
        }
        return std::uint64_t{0};
    }

private:
    analysis_runner(const simt::executor& on, std::uint32_t vertices) : on_{timed(on)}, vertices_{vertices} {}

    absl::Status prepare() {
        absl::Status status;
        status.Update(make(on_, vertices_, first_));
        status.Update(make(on_, vertices_, second_));
        status.Update(make(on_, vertices_, length_));
        status.Update(make(on_, vertices_, rank_));
        status.Update(make(on_, vertices_, share_));
        status.Update(make(on_, 1, changed_));
        status.Update(make(on_, 1, count_));
        status.Update(make(on_, 1, counts_));
        return status;
    }

    [[nodiscard]] simt::grid shape() const {
        return on_.kind == simt::device_kind::cuda ? simt::grid{1056, 256} : simt::grid{8, 64};
    }
    template <class Kernel>
    absl::Status launch(const Kernel& kernel) {
        return examples::run(on_, shape(), kernel, kernel_us_);
    }
    template <class Rows, class Work>
    absl::Status over(const Rows& rows, const Work& work) {
        return launch(over_rows<Rows, Work>{rows, vertices_, work});
    }
    template <class Rows, class Check>
    absl::StatusOr<invariant_sums> counted(const Rows& rows, const Check& check) {
        invariant_sums sums;
        static_assert(sizeof(sums) == sizeof(invariant_counts));
        absl::Status s = counts_.zero();
        s.Update(s.ok() ? over(rows, check) : s);
        s.Update(s.ok() ? copy_to_host(on_, &sums, counts_.data(), sizeof(sums)) : s);
        return s.ok() ? absl::StatusOr<invariant_sums>(sums) : s;
    }
    absl::Status fill(device_array<word32>& words, std::uint32_t value, bool by_number = false) {
        return launch(fill_words{vertices_, words.data(), value, by_number});
    }
    absl::Status set(device_array<word32>& words, std::uint32_t at, std::uint32_t value) {
        return copy_to_device(on_, words.data() + at, &value, sizeof(value));
    }
    absl::Status get(const void* from, std::uint32_t& value) { return copy_to_host(on_, &value, from, sizeof(value)); }

    /// Calls `round` until it changes nothing.
    template <class Round>
    absl::Status repeat(const Round& round) {
        absl::Status s;
        for (std::uint32_t changed = 1; s.ok() && changed != 0;) {
            s.Update(changed_.zero());
            s.Update(s.ok() ? round() : s);
            s.Update(s.ok() ? get(changed_.data(), changed) : s);
        }
        return s;
    }

    template <class Rows>
    absl::Status search(const Rows& rows, std::uint32_t source) {
        absl::Status s = fill(first_, unreached);
        s.Update(s.ok() ? set(first_, source, 0) : s);
        std::uint32_t level = 0;
        s.Update(s.ok() ? repeat([&] { return over(rows, search_work{first_.data(), level++, changed_.data()}); }) : s);
        return s;
    }

    template <class Rows>
    absl::Status paths(const Rows& rows, std::uint32_t source) {
        absl::Status s = launch(fill_lengths{vertices_, length_.data(), source});
        device_array<word32>* active = &first_;
        device_array<word32>* next = &second_;
        s.Update(active->zero());
        s.Update(s.ok() ? set(*active, source, 1) : s);
        s.Update(s.ok() ? repeat([&] {
            absl::Status done = next->zero();
            done.Update(over(rows, path_work{length_.data(), active->data(), next->data(), changed_.data()}));
            std::swap(active, next);
            return done;
        })
                        : s);
        return s;
    }

    template <class Rows>
    absl::Status ranks(const Rows& rows, int steps) {
        absl::Status s = launch(fill_doubles{vertices_, rank_.data(), 1.0 / vertices_});
        for (int step = 0; step < steps && s.ok(); ++step) {
            s.Update(launch(share_ranks<Rows>{rows, vertices_, rank_.data(), share_.data()}));
            s.Update(over(rows, rank_work{share_.data(), rank_.data(), rank_damping}));
        }
        return s;
    }

    template <class Rows>
    absl::Status components(const Rows& rows) {
        absl::Status s = fill(first_, 0, true);
        s.Update(s.ok() ? repeat([&] { return over(rows, component_work{first_.data(), changed_.data()}); }) : s);
        return s;
    }

    template <class Rows>
    absl::Status triangles(const Rows& rows, std::uint64_t& count) {
        absl::Status s = count_.zero();
        s.Update(s.ok() ? over(rows, triangle_work{count_.data()}) : s);
        s.Update(s.ok() ? copy_to_host(on_, &count, count_.data(), sizeof(count)) : s);
        return s;
    }

    template <class Rows>
    absl::Status cores(const Rows& rows) {
        absl::Status s = fill(first_, unreached);
        s.Update(s.ok() ? launch(begin_cores<Rows>{rows, vertices_, second_.data()}) : s);
        for (std::uint32_t k = 0; s.ok();) {
            std::uint32_t least = unreached;
            s.Update(set(changed_, 0, unreached));
            s.Update(s.ok() ? launch(least_left{vertices_, second_.data(), first_.data(), changed_.data()}) : s);
            s.Update(s.ok() ? get(changed_.data(), least) : s);
            if (least == unreached) {
                break;  // all are removed
            }
            k = least > k ? least : k;
            s.Update(s.ok() ? repeat([&] {
                return over(rows, core_work{second_.data(), first_.data(), k, changed_.data()});
            })
                            : s);
        }
        return s;
    }

    simt::executor on_;
    std::uint32_t vertices_;
    double kernel_us_ = 0;
    device_array<word32> first_;  ///< the result
    device_array<word32> second_;
    device_array<word64> length_;  ///< of paths
    device_array<double> rank_;
    device_array<double> share_;
    device_array<word32> changed_;
    device_array<word64> count_;
    device_array<invariant_counts> counts_;
};

}  // namespace orchard::examples
