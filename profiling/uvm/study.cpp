// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Runs the product of a study's lists through the model of the driver's paging, cell by cell.

#include "profiling/uvm/study.hpp"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "profiling/uvm/applications/application.hpp"
#include "uvm/model/paging_model.hpp"
#include "uvm/model/patterns.hpp"
#include "uvm/model/trace_file.hpp"

namespace orchard::uvm_study {
namespace {

using uvm_model::access_source;
using uvm_model::paging_model;

/// Accesses that can be run repeatedly: each capacity reads the same ones from the beginning.
struct replay {
    /// Returns the accesses from the first one on.
    std::function<absl::StatusOr<std::unique_ptr<access_source>>()> open;
    std::uint64_t bytes = 0;  ///< memory of the threads
};

/// Returns whether the model computes a pattern of this name; otherwise it may be an application's.
bool is_pattern(const std::string& name) {
    return std::ranges::any_of(uvm_model::patterns(), [&](const auto& p) { return p.name == name; });
}

/// Returns the accesses of a trace in memory. @param bytes  of the threads, for capacities in percent
replay of_trace(const uvm_model::trace& t, std::uint64_t bytes) {
    return {[t]() -> absl::StatusOr<std::unique_ptr<access_source>> { return t.source(); }, bytes};
}

/// Returns the accesses of a pattern, or of an application, which is run on the emulated device for it. Errors:
/// InvalidArgument for an unknown name, with all known ones; those of the model and of the application.
/// @param graph  for the pattern graph-walk; it does not depend on the arrangement, and is created if it is null
absl::StatusOr<replay> open_pattern(const study& s, const std::string& name, const arrangement& a,
                                    portion_policy placed, std::shared_ptr<const uvm_model::csr>& graph) {
    if (is_pattern(name)) {
        // The memory of all threads, in the arrangement of this cell; accesses are computed from it on demand.
        uvm_model::pattern_parameters p;
        p.memory = {s.threads, s.bytes_per_thread, s.element_bytes, a.how, a.order, placed, a.by, s.tails};
        p.accesses_per_thread = s.accesses;
        p.seed = s.seed;
        p.stride = s.stride;
        const auto which = uvm_model::pattern_named(name);
        if (!which.ok()) {
            return which.status();
        }
        if (*which == uvm_model::pattern::graph_walk) {
            if (graph == nullptr) {
                auto made = uvm_model::graph_for(p);
                if (!made.ok()) {
                    return made.status();
                }
                graph = *std::move(made);
            }
            p.graph = graph;
        }
        return replay{[p, which = *which] { return uvm_model::make_pattern(which, p); },
                      s.threads * s.bytes_per_thread};
    }
    const auto application = applications::application_named(name);
    if (!application.ok()) {
        // The list has patterns and applications, since either may have been meant.
        std::vector<std::string> known;
        for (const auto& p : uvm_model::patterns()) {
            known.emplace_back(p.name);
        }
        for (const auto& one : applications::applications()) {
            known.emplace_back(one.name);
        }
        return absl::InvalidArgumentError(
            absl::StrCat("there is no pattern \"", name, "\"; choose one of: ", absl::StrJoin(known, ", ")));
    }
    // Applications choose their own memory and accesses; of the study's sizes, only threads and scale apply.
    applications::parameters p;
    p.threads = s.threads;
    p.scale = s.scale;
    p.how = a.how;
    p.order = a.order;
    p.portions = placed;
    p.tails = s.tails;
    p.by = a.by;
    p.seed = s.seed;
    const auto recorded = application->run(p);
    if (!recorded.ok()) {
        return recorded.status();
    }
    // An application is recorded anew for each arrangement, because its addresses depend on it.
    return of_trace(*recorded, recorded->source()->bytes());
}

/// Gives the advice for all of the memory. Errors: the model's own.
absl::Status advise(paging_model& model, std::uint64_t bytes, told advice) {
    using uvm_model::advice::prefer_cpu;
    using uvm_model::advice::prefer_gpu;
    using uvm_model::advice::read_mostly;
    switch (advice) {
        case told::nothing: break;
        case told::prefer_gpu: return model.advise({0, bytes}, prefer_gpu);
        case told::prefer_cpu: return model.advise({0, bytes}, prefer_cpu);
        case told::read_mostly: return model.advise({0, bytes}, read_mostly);
    }
    return absl::OkStatus();
}

/// Returns the bytes of GPU memory for a capacity: whole segments, at least one; 0: unlimited. @param in_use  bytes of
/// the threads
std::uint64_t bytes_of(const capacity& c, std::uint64_t in_use) {
    if (c.is_unlimited()) {
        return 0;
    }
    // A VA block is the model's unit of GPU memory: at least one.
    const std::uint64_t bytes = c.share ? static_cast<std::uint64_t>(*c.share * static_cast<double>(in_use)) : *c.bytes;
    return std::max(segment_bytes, bytes / segment_bytes * segment_bytes);
}

/// Runs one cell; the caller sets the outcome's names.
absl::StatusOr<outcome> run_cell(const study& s, const replay& what, const capacity& c,
                                 uvm_model::paging_policy policy) {
    auto source = what.open();
    if (!source.ok()) {
        return source.status();
    }
    outcome o;
    o.bytes = what.bytes;
    o.memory = text_of(c);
    o.policy = uvm_model::name_of(policy);
    o.capacity = bytes_of(c, what.bytes);
    // The space may be larger than the threads' memory: placements leave gaps. Capacities count the latter.
    const std::uint64_t space = (*source)->bytes();
    // A new model for each cell: no page is left from the one before.
    auto model =
        paging_model::create({space, o.capacity != 0 ? std::optional(o.capacity) : std::nullopt, s.machine, policy});
    if (!model.ok()) {
        return model.status();
    }
    absl::Status status = advise(*model, space, s.advice);
    // Contents on the CPU must be moved; untouched memory comes to the GPU without a copy.
    if (status.ok() && s.contents == before::cpu) {
        status = model->populate({0, space}, uvm_model::processor::cpu);
    }
    if (!status.ok()) {
        return status;
    }
    // Advice first, then contents, then the kernel: as a program would.
    const auto counts = model->run(**source);
    if (!counts.ok()) {
        return counts.status();
    }
    o.counts = *counts;
    return o;
}

/// The product of all lists while it runs.
class running_study {
public:
    running_study(const study& s, const progress& tell) : study_{s}, tell_{tell}, graph_{s.graph} {
        // The number of cells, for progress. Traces have no layouts and placements.
        std::size_t placed = 0;
        for (const arrangement& a : s.layouts) {
            placed += placements_of(a).size();
        }
        all_ = (s.patterns.size() * placed + s.traces.size()) * s.capacities.size() * s.policies.size();
    }

    /// Run all cells of patterns and applications, and of traces; the first error ends it.
    absl::Status run_patterns() {
        for (const std::string& name : study_.patterns) {
            for (const arrangement& a : study_.layouts) {
                for (const portion_policy placed : placements_of(a)) {
                    // Opened once for all capacities: an application runs only once for them.
                    const auto what = open_pattern(study_, name, a, placed, graph_);
                    absl::Status s = what.status();
                    s.Update(s.ok() ? run_capacities(*what, name, text_of(a), text_of_placement(a, placed))
                                    : absl::OkStatus());
                    if (!s.ok()) {
                        return s;
                    }
                }
            }
        }
        return absl::OkStatus();
    }
    absl::Status run_traces() {
        for (const std::string& file : study_.traces) {
            const auto loaded = uvm_model::trace::load(file);
            if (!loaded.ok()) {
                return loaded.status();
            }
            // A trace brings its own space; its addresses cannot be placed again.
            const replay what = of_trace(*loaded, loaded->header().space_bytes);
            if (absl::Status s = run_capacities(what, file, "recorded", "recorded"); !s.ok()) {
                return s;
            }
        }
        return absl::OkStatus();
    }
    /// Returns the cells that were run.
    std::vector<outcome> take() { return std::move(done_); }

private:
    /// Returns the placements with which an arrangement is run: SyncMalloc's has no portions.
    [[nodiscard]] std::span<const portion_policy> placements_of(const arrangement& a) const {
        const std::span<const portion_policy> all = study_.placements;
        return a.by == uvm_model::placed_by::service ? all : all.first(1);
    }
    /// Returns the name of the placement of a cell.
    static const char* text_of_placement(const arrangement& a, portion_policy placed) {
        if (a.by == uvm_model::placed_by::sync_malloc) {
            return "first_fit";
        }
        return placed == portion_policy::packed ? "packed" : "padded";
    }

    /// Runs one source of accesses at each capacity and with each policy, and names the cells.
    absl::Status run_capacities(const replay& what, const std::string& source, const std::string& how,
                                const std::string& placed) {
        for (const capacity& c : study_.capacities) {
            for (const uvm_model::paging_policy policy : study_.policies) {
                if (tell_) {
                    tell_(done_.size(), all_);
                }
                auto o = run_cell(study_, what, c, policy);
                if (!o.ok()) {
                    return o.status();
                }
                o->source = source;
                o->how = how;
                o->placement = placed;
                done_.push_back(*std::move(o));
            }
        }
        return absl::OkStatus();
    }

    const study& study_;
    const progress& tell_;
    std::shared_ptr<const uvm_model::csr> graph_;
    std::size_t all_ = 0;  ///< number of cells
    std::vector<outcome> done_;
};

}  // namespace

absl::StatusOr<std::vector<outcome>> run(const study& s, const progress& tell) {
    if (s.patterns.empty() && s.traces.empty()) {
        return absl::InvalidArgumentError("nothing to run; name a pattern with --pattern, or a file with --trace");
    }
    running_study all(s, tell);
    // Patterns first, then traces, each in the order of the command line.
    absl::Status status = all.run_patterns();
    status.Update(status.ok() ? all.run_traces() : absl::OkStatus());
    if (!status.ok()) {
        return status;
    }
    return all.take();
}

}  // namespace orchard::uvm_study
