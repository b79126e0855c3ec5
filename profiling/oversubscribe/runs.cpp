// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The rows of `orchard oversubscribe`, one after the other.
///
///     run
///       subjects_of       what the rows are about
///       make_row          measure in the heap of the way, or model_row; of an application model_row_of_application

#include "profiling/oversubscribe/runs.hpp"

#include <algorithm>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "profiling/bench/watchdog.hpp"
#include "profiling/oversubscribe/measure.hpp"
#include "runtime/cli/program_heap.hpp"

namespace orchard::oversubscribe {
namespace {

/// The heaps of the ways, made when they are first needed.
class heaps {
public:
    explicit heaps(const plan& p) : p_{p} {}

    /// Returns the heap for a way. Errors: those of `heap::create`.
    absl::StatusOr<heap*> of(way w, std::uint64_t bytes) {
        const auto i = static_cast<std::size_t>(w);
        std::unique_ptr<heap>& known = heaps_[i];
        // One for each way: where memory has changed its tier, the lowest addresses are not on the device any more. It
        // has room for this size alone, since more memory on the host would hold more of the data.
        if (bytes != bytes_of_[i]) {
            known.reset();
            bytes_of_[i] = bytes;
        }
        if (known == nullptr) {
            auto made = command_line::create_heap(options_of(w, bytes));
            if (!made.ok()) {
                return made.status();
            }
            known = std::make_unique<heap>(*std::move(made));
        }
        return known.get();
    }

private:
    /// A third more than the data, and 64 segments: interleaved arrays are rounded up, and of linear ones a segment may
    /// hold four of 410 KiB.
    static std::uint64_t with_room(double bytes) {
        return (static_cast<std::uint64_t>(bytes * 4 / 3) / segment_bytes + 64) * segment_bytes;
    }
    [[nodiscard]] options options_of(way w, std::uint64_t bytes) const {
        options o = p_.heap;
        o.device = p_.device == simt::device_kind::cuda ? device_option::cuda : device_option::emulated;
        o.backing = w == way::managed ? backing_option::managed : backing_option::elastic;
        if (w == way::device || w == way::managed) {
            o.capacity = with_room(static_cast<double>(bytes));
            o.host_budget = 0;
            o.move_unit = 0;
            o.allow_oversubscription = w == way::managed && p_.measures_managed;
        } else {
            const std::uint64_t all = with_room(static_cast<double>(bytes));
            o.host_budget = o.host_budget != 0 ? o.host_budget : all - std::min(all, o.capacity) + 64 * segment_bytes;
            o.move_unit = o.move_unit != 0 ? o.move_unit : segment_bytes;
        }
        // All memory is written before it is read: memory ahead of demand would only be in the way of the tiers.
        o.commit_ahead = 0;
        return o;
    }

    const plan& p_;
    std::unique_ptr<heap> heaps_[4];  ///< by way
    std::uint64_t bytes_of_[4] = {};
};

/// Returns the subjects of all rows, in the order in which they are run: the data grows, so that the first rows find
/// the device's memory alone.
std::vector<row_subject> subjects_of(const plan& p) {
    std::vector<row_subject> all;
    std::vector<double> sizes = p.data;
    std::sort(sizes.begin(), sizes.end());
    for (const double data : sizes) {
        const auto bytes = static_cast<std::uint64_t>(data * static_cast<double>(p.heap.capacity));
        for (const apps::app& a : p.applications) {
            for (const layout how : p.layouts) {
                for (const way w : p.ways) {
                    all.push_back({pattern::random, how, data, w, bytes, 0, &a});
                }
            }
        }
        for (const pattern which : p.patterns) {
            // Segments have one layout.
            for (const layout how : which == pattern::working_set ? std::vector{layout::linear()} : p.layouts) {
                for (const way w : p.ways) {
                    all.push_back({which, how, data, w, bytes, static_cast<std::uint32_t>(all.size())});
                }
            }
        }
    }
    return all;
}

/// Returns one row.
absl::StatusOr<row> make_row(heaps& all, const plan& p, const row_subject& of) {
    const bool by_model = of.by == way::managed && !p.measures_managed;
    if (by_model && of.application == nullptr) {
        return model_row(p, of);
    }
    std::optional<bench::watchdog> dog;
    if (of.by == way::managed && !by_model) {
        dog.emplace(p.managed_patience, p.stuck);
    }
    // For the model, an application is recorded where its memory stays.
    const auto in = all.of(by_model ? way::stay : of.by, of.bytes);
    if (!in.ok()) {
        return in.status();
    }
    // Memory that the row before has freed may be cached for chunks of another size; this row would then take memory of
    // the host although the budget has room for it. Beyond the budget all memory is in use, and giving the host tier
    // back would cost seconds.
    if (of.data <= 1) {
        if (absl::Status s = (*in)->trim(); !s.ok()) {
            return s;
        }
    }
    if (by_model) {
        return model_row_of_application(**in, p, of);
    }
    return of.application != nullptr ? measure_application(**in, p, of) : measure(**in, p, of);
}

}  // namespace

absl::Status run(const plan& p, const std::function<bool(const row&)>& is_known,
                 const std::function<absl::Status(const row&)>& done) {
    heaps all(p);
    for (const row_subject& of : subjects_of(p)) {
        if (is_known(axes_of(of))) {
            continue;
        }
        auto made = make_row(all, p, of);
        if (!made.ok()) {
            return made.status();
        }
        const row& r = *made;
        if (absl::Status s = done(r); !s.ok()) {
            return s;
        }
        if (r.value("wrong", 0) != 0) {
            return absl::InternalError(absl::StrCat("values or results are wrong: ", r.dump()));
        }
    }
    return absl::OkStatus();
}

}  // namespace orchard::oversubscribe
