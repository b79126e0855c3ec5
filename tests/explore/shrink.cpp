// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "tests/explore/shrink.hpp"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <numeric>
#include <set>
#include <utility>

#include "tests/explore/report.hpp"

namespace orchard::explore {

namespace ex = simt::explore;

namespace {

using record = std::vector<std::uint32_t>;

std::size_t surprises_in(const record& r) {
    return static_cast<std::size_t>(std::ranges::count_if(r, [](std::uint32_t chosen) { return chosen != 0; }));
}

void trim(record& r) {
    while (!r.empty() && r.back() == 0) {
        r.pop_back();
    }
}

long size_of(const scale& s) {
    long lanes = 0;
    long warps = 0;
    for (const ex::block_shape& block : s.blocks) {
        lanes = std::accumulate(block.begin(), block.end(), lanes);
        warps += static_cast<long>(block.size());
    }
    return (lanes + warps + static_cast<long>(s.blocks.size())) * s.operations;
}

/// Smaller numbers to put in the place of n: 1, about half, one less.
std::set<int> fewer(int n) {
    std::set<int> numbers;
    for (int smaller : {1, n / 2, n - 1}) {
        if (smaller >= 1 && smaller < n) {
            numbers.insert(smaller);
        }
    }
    return numbers;
}

/// The seed that fails as wanted with the fewest points, of as many as may be tried.
std::optional<std::uint64_t> shortest_failing(const sized_scenario& what, const std::string& kind,
                                              const shrink_effort& effort) {
    std::mutex guard;
    std::optional<std::pair<std::uint64_t, std::uint64_t>> best;  // points, seed
    for_each_number(effort.threads, effort.prepare_thread, [&](std::uint64_t seed) {
        if (seed >= effort.seeds) {
            return false;
        }
        const ex::verdict v = run_once(*what.what, what.size, *ex::choices_of(strategy_of(seed), seed));
        if (!v.ok() && kind_of(v.violation) == kind) {
            const std::lock_guard lock(guard);
            const auto here = std::pair(v.points, seed);
            best = best ? std::min(*best, here) : here;
        }
        return true;
    });
    return best ? std::optional(best->second) : std::nullopt;
}

/// The lowest of the first seeds that fails as wanted.
std::optional<std::uint64_t> first_failing(const sized_scenario& what, const std::string& kind,
                                           const shrink_effort& effort) {
    constexpr std::uint64_t none = std::numeric_limits<std::uint64_t>::max();
    std::atomic<std::uint64_t> lowest = none;
    for_each_number(effort.threads, effort.prepare_thread, [&](std::uint64_t seed) {
        if (seed >= effort.seeds) {
            return false;
        }
        // Seeds are given out in order: whatever is lower than this one has been begun and will be finished.
        const ex::verdict v = run_once(*what.what, what.size, *ex::choices_of(strategy_of(seed), seed));
        if (v.ok() || kind_of(v.violation) != kind) {
            return true;
        }
        std::uint64_t known = lowest.load();
        while (seed < known && !lowest.compare_exchange_weak(known, seed)) {
        }
        return false;
    });
    return lowest == none ? std::nullopt : std::optional(lowest.load());
}

/// Runs records and keeps the simplest that still fails as wanted.
class simplifier {
public:
    /// @param points of the run that `first` records
    simplifier(const sized_scenario& what, std::string kind, std::uint64_t most_points, record first,
               std::uint64_t points)
        : what_{what},
          kind_{std::move(kind)},
          points_left_{most_points},
          best_{std::move(first)},
          measure_{surprises_in(best_), points} {}

    /// Delta debugging: shorter and shorter ranges of choices are set to 0, or removed so that later choices move up. A
    /// change is kept if the run still fails. Source: Zeller and Hildebrandt, Simplifying and isolating
    /// failure-inducing input, TSE 2002.
    void simplify() {
        for (bool simpler = true; simpler && points_left_ != 0;) {
            simpler = reduce([this] { return surprises_in(best_); }, 1,
                             [this](std::size_t begin, std::size_t end) { return try_zeros(begin, end); });
            simpler |= reduce([this] { return best_.size(); }, shortest_cut,
                              [this](std::size_t begin, std::size_t end) { return try_cut(begin, end); });
        }
    }
    [[nodiscard]] const record& best() const { return best_; }

private:
    static constexpr std::size_t shortest_cut = 4;

    /// Tries ranges of all lengths down to `shortest`. Returns true if one of them made the record simpler.
    template <class Size, class Try>
    bool reduce(const Size& size, std::size_t shortest, const Try& try_range) {
        bool any = false;
        for (std::size_t length = std::max(shortest, size()); points_left_ != 0;) {
            bool simpler = false;
            // Begins at the end, because a range there more often belongs to events after the fault.
            for (std::size_t end = size(); end != 0 && points_left_ != 0;) {
                const std::size_t begin = end > length ? end - length : 0;
                simpler |= try_range(begin, end);
                end = std::min(begin, size());
            }
            any |= simpler;
            if (length == shortest && !simpler) {
                break;
            }
            length = std::max(shortest, length / 2);
        }
        return any;
    }

    /// Tries the record without its choices number `begin` to `end` - 1.
    bool try_cut(std::size_t begin, std::size_t end) {
        record tried = best_;
        tried.erase(tried.begin() + static_cast<std::ptrdiff_t>(begin),
                    tried.begin() + static_cast<std::ptrdiff_t>(end));
        return try_record(std::move(tried));
    }

    /// Tries the record with its surprises number `begin` to `end` - 1 set to 0.
    bool try_zeros(std::size_t begin, std::size_t end) {
        record tried = best_;
        std::size_t index = 0;
        for (std::uint32_t& chosen : tried) {
            if (chosen != 0) {
                chosen = index >= begin && index < end ? 0 : chosen;
                ++index;
            }
        }
        return try_record(std::move(tried));
    }

    /// Keeps the record if its run fails as wanted, with fewer surprises, or with as many and fewer points.
    bool try_record(record tried) {
        const auto choices = ex::recorded_choices(std::move(tried));
        const ex::verdict v = run_once(*what_.what, what_.size, *choices);
        points_left_ -= std::min(points_left_, v.points);
        const std::pair measure(surprises_in(choices->record()), v.points);
        if (v.ok() || measure >= measure_ || kind_of(v.violation) != kind_) {
            return false;
        }
        // The choices that were actually made, because the run may have been shorter than its record.
        best_ = choices->record();
        measure_ = measure;
        trim(best_);
        return true;
    }

    const sized_scenario& what_;
    std::string kind_;
    std::uint64_t points_left_;
    record best_;
    std::pair<std::size_t, std::uint64_t> measure_;  // of the best one: surprises, points
};

}  // namespace

std::vector<scale> smaller_scales(const scale& s) {
    std::vector<scale> list;
    for (int operations : fewer(s.operations)) {
        list.push_back({s.blocks, operations});
    }
    for (std::size_t b = 0; b < s.blocks.size(); ++b) {
        if (s.blocks.size() > 1) {
            list.push_back(s);
            list.back().blocks.erase(list.back().blocks.begin() + static_cast<std::ptrdiff_t>(b));
        }
        for (std::size_t w = 0; w < s.blocks[b].size(); ++w) {
            if (s.blocks[b].size() > 1) {
                list.push_back(s);
                ex::block_shape& block = list.back().blocks[b];
                block.erase(block.begin() + static_cast<std::ptrdiff_t>(w));
            }
            for (int lanes : fewer(s.blocks[b][w])) {
                list.push_back(s);
                list.back().blocks[b][w] = lanes;
            }
        }
    }
    std::ranges::stable_sort(list, {}, size_of);
    return list;
}

std::optional<shrunk> shrink(const sized_scenario& what, std::uint64_t seed, ex::strategy how,
                             const shrink_effort& effort, const std::function<void(const std::string&)>& tell) {
    const ex::verdict first = run_once(*what.what, what.size, *ex::choices_of(how, seed));
    if (first.ok()) {
        return std::nullopt;
    }
    const std::string kind = kind_of(first.violation);
    shrunk s{.size = what.size, .seed = seed, .how = how, .record = {}, .result = {}, .timeline = {}};
    std::set<std::string> tried;
    for (bool found = true; found;) {
        found = false;
        for (const scale& size : smaller_scales(s.size)) {
            if (!tried.insert(text_of(size)).second) {
                continue;
            }
            if (tell) {
                tell(absl::StrCat("trying ", text_of(size)));
            }
            if (const auto failing = first_failing({what.what, size}, kind, effort)) {
                s.size = size;
                s.seed = *failing;
                s.how = strategy_of(*failing);
                found = true;
                break;
            }
        }
    }
    const sized_scenario smallest{what.what, s.size};
    if (const auto shortest = shortest_failing(smallest, kind, effort)) {
        s.seed = *shortest;
        s.how = strategy_of(*shortest);
    }
    const auto choices = ex::choices_of(s.how, s.seed);
    s.points_of_seed = run_once(*what.what, s.size, *choices).points;
    s.surprises_of_seed = surprises_in(choices->record());
    if (tell) {
        tell(absl::StrCat("simplifying ", s.surprises_of_seed, " choices of seed ", s.seed, " at ", text_of(s.size)));
    }
    simplifier simple(smallest, kind, effort.points, choices->record(), s.points_of_seed);
    simple.simplify();
    s.record = simple.best();
    trim(s.record);
    s.surprises = surprises_in(s.record);
    ex::settings readable;
    readable.keep_trace = true;
    s.result = run_once(*what.what, s.size, *ex::recorded_choices(s.record), readable, &s.timeline);
    return s;
}

exhaustive_result search_exhaustively(const sized_scenario& what, std::uint32_t surprises, std::uint64_t max_runs,
                                      const std::function<void(const std::string&)>& tell) {
    constexpr std::uint64_t told_every = 10'000;
    exhaustive_result r;
    ex::bounded_search search(surprises);
    ex::settings how;
    while (r.runs < max_runs) {
        ex::choices* const next = search.next();
        if (next == nullptr) {
            r.finished = true;
            break;
        }
        const ex::verdict v = run_once(*what.what, what.size, *next, how);
        ++r.runs;
        r.most_points = std::max(r.most_points, v.points);
        if (!v.ok()) {
            r.violation = v.violation;
            how.keep_trace = true;
            run_once(*what.what, what.size, *ex::recorded_choices(next->record()), how, &r.timeline);
            break;
        }
        if (tell && r.runs % told_every == 0) {
            tell(absl::StrCat(what.what->name, ": ", r.runs, " runs"));
        }
    }
    return r;
}

}  // namespace orchard::explore
