// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "tests/weak_memory/litmus.hpp"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <memory>

#include "tests/weak_memory/one_run.hpp"

namespace orchard::litmus {

namespace ex = simt::explore;

one_run::one_run(const program& p, ex::choices& from)
    : program_{p},
      simulation_{from,
                  {.most_points = 20'000,
                   .races_are_violations = p.races_are_violations,
                   .delays = false,
                   .pause_stretch = 1}} {
    std::vector<ex::block_shape> shape;
    for (const thread& t : p.threads) {
        if (!t.at.host) {
            const auto block = static_cast<std::size_t>(t.at.block);
            const auto warp = static_cast<std::size_t>(t.at.warp);
            shape.resize(std::max(shape.size(), block + 1));
            shape[block].resize(std::max(shape[block].size(), warp + 1));
            ++shape[block][warp];
        }
    }
    words() = {};
    actors_.resize(p.threads.size());
    add_device_threads(shape);
    for (std::size_t i = 0; i < p.threads.size(); ++i) {
        if (p.threads[i].at.host) {
            actors_[i] =
                simulation_.add_host(absl::StrCat("host", i), [this, i] { program_.threads[i].body(words()); });
        }
    }
}

/// Lanes are numbered by block, warp, lane; threads of the program by their place in its list.
void one_run::add_device_threads(const std::vector<ex::block_shape>& shape) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < program_.threads.size(); ++i) {
        if (!program_.threads[i].at.host) {
            order.push_back(i);
        }
    }
    if (order.empty()) {
        return;
    }
    std::ranges::stable_sort(order, [this](std::size_t i, std::size_t j) {
        const place& a = program_.threads[i].at;
        const place& b = program_.threads[j].at;
        return a.block != b.block ? a.block < b.block : a.warp < b.warp;
    });
    simulation_.add_kernel(shape, [this](simt::thread_position) {
        const auto me = std::ranges::find(actors_of_lanes_, simulation_.self()) - actors_of_lanes_.begin();
        program_.threads[order_[static_cast<std::size_t>(me)]].body(words());
    });
    order_ = order;
    actors_of_lanes_ = simulation_.lanes();
    for (std::size_t k = 0; k < order.size(); ++k) {
        actors_[order[k]] = actors_of_lanes_[k];
    }
}

shared& one_run::words() {
    // At the same addresses in every run: promises name words by them.
    static shared all;
    return all;
}

void one_run::count(outcomes& to) {
    if (!simulation_.run()) {
        ++to.violations[simulation_.result().violation];
        return;
    }
    outcome o(words().r.begin(), words().r.begin() + program_.registers);
    for (cell shared::*word : program_.last_values) {
        o.push_back((words().*word).last());
    }
    ++to.seen[o];
}

outcomes explore(const program& p, const effort& how) {
    outcomes all;
    for (const ex::strategy s : {ex::strategy::uniform, ex::strategy::priority}) {
        for (int seed = 0; seed < how.seeds; ++seed) {
            const auto from = ex::choices_of(s, static_cast<std::uint64_t>(seed));
            one_run(p, *from).count(all);
        }
    }
    ex::bounded_search search{how.surprises};
    ex::choices* from = search.next();
    for (int runs = 0; from != nullptr && runs < how.max_runs; ++runs, from = search.next()) {
        one_run(p, *from).count(all);
    }
    all.searched_all = from == nullptr;
    return all;
}

std::string outcomes::text() const {
    std::string lines;
    for (const auto& [o, times] : seen) {
        absl::StrAppend(&lines, "  {", absl::StrJoin(o, ", "), "}: ", times, " times\n");
    }
    for (const auto& [what, times] : violations) {
        absl::StrAppend(&lines, "  ", times, " times: ", what, "\n");
    }
    return lines;
}

namespace {

testing::AssertionResult verdict(const outcomes& all, bool holds, const char* otherwise, const outcome& o) {
    if (holds && all.violations.empty() && !all.seen.empty()) {
        return testing::AssertionSuccess();
    }
    return testing::AssertionFailure() << "{" << absl::StrJoin(o, ", ") << "} " << otherwise << "; all that was seen:\n"
                                       << all.text();
}

}  // namespace

testing::AssertionResult never(const program& p, const outcome& o) {
    const outcomes all = explore(p);
    return verdict(all, !all.seen.contains(o), "must not be seen", o);
}

testing::AssertionResult allowed(const program& p, const outcome& o) {
    const outcomes all = explore(p);
    return verdict(all, all.seen.contains(o), "must be seen", o);
}

testing::AssertionResult is_violation(const program& p, const std::string& text) {
    const outcomes all = explore(p);
    const bool found =
        std::ranges::any_of(all.violations, [&text](const auto& v) { return v.first.find(text) != std::string::npos; });
    return found ? testing::AssertionSuccess()
                 : testing::AssertionFailure() << "\"" << text << "\" must be found; all that was seen:\n"
                                               << all.text();
}

testing::AssertionResult races(const program& p) { return is_violation(p, "a race: "); }

testing::AssertionResult never_with_promises(const program& p, const outcome& o) {
    const outcomes all = explore_with_promises(p);
    // If no promise is ever kept, there are no runs, and no forbidden outcome was seen.
    return !all.seen.contains(o) ? testing::AssertionSuccess() : verdict(all, false, "must not be seen", o);
}

testing::AssertionResult allowed_with_promises(const program& p, const outcome& o) {
    const outcomes all = explore_with_promises(p);
    return verdict(all, all.seen.contains(o), "must be seen", o);
}

}  // namespace orchard::litmus
