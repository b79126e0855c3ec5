// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The loop over backings, sizes, layouts and applications, and the rows.

#include "profiling/apps/matrix.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "absl/strings/str_format.h"
#include "profiling/apps/model.hpp"
#include "profiling/bench/bench.hpp"
#include "profiling/bench/repetitions.hpp"
#include "runtime/cli/program_heap.hpp"
#include "runtime/heap/heap.hpp"
#include "uvm/geometry/layout_text.hpp"

namespace orchard::apps {
namespace {

using nlohmann::ordered_json;

/// Returns the name of a backing, as options have it.
std::string name_of_backing(backing_option which) {
    options values;
    values.backing = which;
    for (const option_info& info : option_table(values)) {
        if (info.name == "backing") {
            return info.value;
        }
    }
    return "";
}

/// Returns the first members of a row, by which a run is recognised.
ordered_json key_of(const app& a, const std::string& backing, const options& heap, const job& j) {
    return {{"application", a.name},
            {"backing", backing},
            {"layout", text_of(j.how)},
            {"bytes", j.bytes},
            {"threads", j.threads},
            {"passes", j.passes},
            {"seed", j.seed},
            {"most_part", j.part},
            {"capacity", heap.capacity},
            {"host_budget", heap.host_budget},
            {"trace_every", j.trace_every},
            {"moves", j.moves},
            {"move_unit", heap.move_unit}};
}

/// Returns true if the row is one of the run.
bool is_row_of(const ordered_json& row, const ordered_json& key) {
    return std::all_of(key.items().begin(), key.items().end(), [&](const auto& member) {
        const auto found = row.find(member.key());
        return found != row.end() && *found == member.value();
    });
}

/// Returns a rate in GB/s; 0 without a time.
double gb_per_s(double bytes, double us) { return us > 0 ? bytes / us * 1e-3 : 0; }

/// Returns true if a managed heap for arrays of `bytes` is larger than managed heaps may be.
bool is_beyond_limit(const options& heap, std::uint64_t bytes) {
    return heap.backing == backing_option::managed && heap.managed_limit != 0 &&
           capacity_for(bytes) > heap.managed_limit;
}

/// Adds the result of its checks, and the error of a run.
void add_checks(ordered_json& row, const outcome& found) {
    row["nulls"] = found.nulls;
    row["checked"] = found.checked;
    row["wrong"] = found.wrong;
    if (!found.error.ok()) {
        row["error"] = std::string(found.error.message());
    }
}

/// Adds what a run found to its row. @param by  the device: hardware, or emulated
void add_outcome(ordered_json& row, const char* by, const outcome& found) {
    const double us = found.pass_us.empty() ? 0 : bench::median(found.pass_us);
    row["by"] = by;
    row["array_bytes"] = found.array_bytes;
    row["part"] = found.part;
    // A null where there are not so many passes.
    const bench::repetition_times times = bench::repetitions_of(found.pass_us);
    const auto time = [](const std::optional<double>& t) { return t ? ordered_json(*t) : ordered_json(nullptr); };
    row["first_us"] = time(times.first);
    row["third_us"] = time(times.third);
    row["tenth_us"] = time(times.tenth);
    row["median_us"] = us;
    row["allocate_us"] = found.allocate_us;
    row["fill_us"] = found.fill_us;
    row["gb_per_s"] = gb_per_s(found.pass_bytes, us);
    row["resident_share"] = found.resident_share();
    row["moved_bytes"] = found.moved_bytes();
    row["moves_us"] = found.moves_us;
    add_checks(row, found);
}

/// Adds the model's prediction of the first pass to a row, with a null for all that the model does not know: everything
/// without `counts`, of a run that failed.
/// @param found  the run, in a heap of another backing, whose first pass was recorded
void add_prediction(ordered_json& row, const outcome& found, const std::optional<uvm_model::result>& counts) {
    row["by"] = "model";
    row["array_bytes"] = found.array_bytes;
    row["part"] = found.part;
    for (const char* unknown : {"first_us", "third_us", "tenth_us", "median_us", "allocate_us", "fill_us", "gb_per_s",
                                "resident_share", "moved_bytes", "moves_us"}) {
        row[unknown] = nullptr;
    }
    if (counts) {
        const double us = counts->seconds * 1e6;
        row["first_us"] = us;
        row["gb_per_s"] = gb_per_s(found.pass_bytes, us);
        row["moved_bytes"] = counts->bytes_in() + counts->bytes_out();
    }
    add_checks(row, found);
}

/// The runs of one call.
class runs {
public:
    runs(const matrix& m, ordered_json& rows, const row_sink& tell) : matrix_{m}, rows_{rows}, tell_{tell} {}

    /// Runs all of one backing. The heap is made when the first run needs it.
    absl::Status of_backing(backing_option which) {
        options values = matrix_.heap;
        values.backing = which;
        std::vector<std::uint64_t> sizes = matrix_.bytes;
        std::sort(sizes.begin(), sizes.end());
        if (which == backing_option::managed && values.capacity == 0) {
            // Of the largest arrays that are measured; the model needs no managed heap.
            for (const std::uint64_t bytes : sizes) {
                values.capacity = is_beyond_limit(values, bytes) ? values.capacity : capacity_for(bytes);
            }
        }
        std::optional<heap> h;
        for (const std::uint64_t bytes : sizes) {
            for (const layout how : matrix_.layouts) {
                for (const app& a : matrix_.what) {
                    if (absl::Status status = one(a, bytes, how, values, h); !status.ok()) {
                        return status;
                    }
                }
            }
        }
        return absl::OkStatus();
    }

    /// Returns the error of the runs that have one.
    [[nodiscard]] absl::Status result() const {
        return failed_ == 0 ? absl::OkStatus()
                            : absl::InternalError(absl::StrFormat("%d of %d runs failed; the first: %s", failed_, done_,
                                                                  first_failure_));
    }

private:
    absl::Status one(const app& a, std::uint64_t bytes, layout how, const options& values, std::optional<heap>& h) {
        job j = matrix_.each;
        j.bytes = bytes;
        j.how = how;
        const bool by_model = is_beyond_limit(values, bytes);
        if (by_model) {
            j.passes = 1;
            j.moves = false;
        }
        const options of_heap = by_model ? options_to_record() : values;
        ordered_json row = key_of(a, name_of_backing(values.backing), of_heap, j);
        if (has(row)) {
            if (j.trace_every == 0) {
                return absl::OkStatus();
            }
            remove(row);  // the trace is wanted, and only a run makes one
        }
        // Sizes ascend, so that no managed heap is needed behind the first run that is not measured.
        if (!h || (by_model && h->configuration().backing == backing_option::managed)) {
            h.reset();
            auto made = command_line::create_heap(of_heap);
            if (!made.ok()) {
                return made.status();
            }
            h.emplace(*std::move(made));
        }
        j.part = std::min(j.part, least_part(row));
        outcome found;
        absl::Status status;
        if (by_model) {
            auto of_model = run_and_predict(*h, a, j, h->configuration().capacity);
            status = of_model.status();
            if (status.ok()) {
                found = std::move(of_model->found);
                add_prediction(row, found, of_model->counts);
            }
        } else {
            auto measured = run_app(*h, a, j);
            status = measured.status();
            if (status.ok()) {
                found = *std::move(measured);
                add_outcome(row, h->executor().kind == simt::device_kind::cuda ? "hardware" : "emulated", found);
            }
        }
        if (!status.ok()) {
            return absl::Status(status.code(), absl::StrFormat("%s: %s", a.name, status.message()));
        }
        if (by_model || j.trace_every != 0) {
            row["trace_accesses"] = found.recorded.accesses;
            row["trace_lost"] = found.recorded.lost;
        }
        status = matrix_.done ? matrix_.done(found) : absl::OkStatus();
        if (!status.ok()) {
            return status;
        }
        ++done_;
        if (!found.error.ok()) {
            first_failure_ = failed_ == 0 ? absl::StrFormat("%s: %s", a.name, found.error.message()) : first_failure_;
            ++failed_;
        }
        rows_.push_back(std::move(row));
        return tell_(rows_);
    }
    /// Returns the options of the heap in which a run is recorded for the model: an elastic one, in which memory
    /// beyond the budget is read over the bus.
    [[nodiscard]] options options_to_record() const {
        options values = matrix_.heap;
        values.backing = backing_option::elastic;
        return values;
    }
    /// Returns the least part that a run of the same application and size has done; 1 if there is none. Another layout
    /// or backing then does the same work.
    [[nodiscard]] double least_part(const ordered_json& key) const {
        double least = 1;
        for (const ordered_json& row : rows_) {
            const bool is_like = std::all_of(same_work.begin(), same_work.end(), [&](const char* member) {
                return row.value(member, ordered_json()) == key.at(member);
            });
            if (is_like && !row.contains("error")) {
                least = std::min(least, row.value("part", 1.0));
            }
        }
        return least;
    }
    /// Returns true if there is a row without an error; removes one with an error.
    bool has(const ordered_json& key) {
        for (std::size_t i = 0; i < rows_.size(); ++i) {
            if (is_row_of(rows_[i], key)) {
                if (!rows_[i].contains("error")) {
                    return true;
                }
                rows_.erase(i);
                return false;
            }
        }
        return false;
    }

    /// Removes the rows of a run.
    void remove(const ordered_json& key) {
        rows_.erase(std::remove_if(rows_.begin(), rows_.end(), [&](const auto& row) { return is_row_of(row, key); }),
                    rows_.end());
    }

    /// The members of rows that are the same where the work is.
    static constexpr std::array<const char*, 5> same_work{"application", "bytes", "threads", "seed", "most_part"};

    const matrix& matrix_;
    ordered_json& rows_;
    const row_sink& tell_;
    int done_ = 0;
    int failed_ = 0;
    std::string first_failure_;
};

}  // namespace

/// Chunks exceed arrays by a quarter, and each warp's small arrays take some pages.
std::uint64_t capacity_for(std::uint64_t bytes) {
    constexpr std::uint64_t segment = 2 << 20;
    return (bytes + bytes / 4 + (std::uint64_t{256} << 20) + segment - 1) / segment * segment;
}

absl::Status run_matrix(const matrix& m, ordered_json& rows, const row_sink& tell) {
    runs all(m, rows, tell);
    for (const backing_option which : m.backings) {
        if (absl::Status status = all.of_backing(which); !status.ok()) {
            return status;
        }
    }
    return all.result();
}

}  // namespace orchard::apps
