// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Scenarios of the tests of the runner itself: tiny, one with a fault and one without.

#include <absl/strings/str_cat.h>

#include <cstdint>
#include <ostream>

#include "device/simt/atomic.cuh"
#include "tests/explore/scenario.hpp"

namespace orchard::explore {

/// Prints a scenario for GoogleTest.
inline void PrintTo(const scenario& s, std::ostream* out) { *out << s.name; }

}  // namespace orchard::explore

namespace orchard::explore::testing_support {

using counter_word = simt::device_word<std::uint64_t>;

/// Every lane counts; `add_one` adds one to the count.
template <class AddOne>
void count_with(world& w, const AddOne& add_one) {
    counter_word counter{0};
    std::uint64_t expected = 0;
    w.s.name_words(&counter, sizeof(counter), "counter");
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        for (int i = 0; i < w.size.operations; ++i) {
            add_one(counter);
            ++expected;
        }
    });
    if (w.s.run()) {
        const std::uint64_t counted = counter.load<simt::order::relaxed>();
        w.s.check(counted == expected, absl::StrCat(expected - counted, " of ", expected, " were not counted"));
    }
}

/// Counts by a load and a store: another lane may count in between.
inline void run_lost_update(world& w) {
    count_with(w, [](counter_word& counter) {
        counter.store<simt::order::relaxed>(counter.load<simt::order::relaxed>() + 1);
    });
}

inline void run_right(world& w) {
    count_with(w, [](counter_word& counter) { counter.fetch_add<simt::order::relaxed>(1); });
}

/// Names that no real scenario has.
inline const scenario lost_update{"planted_lost_update", "Counts wrongly.", {{{3, 2}, {3}}, 2}, run_lost_update};
inline const scenario right{"planted_right", "Counts.", {{{3, 2}, {3}}, 2}, run_right};

/// The scenarios of the heap, without those planted here.
inline std::vector<scenario> real_scenarios() {
    std::vector<scenario> list = all_scenarios();
    std::erase_if(list, [](const scenario& s) { return s.name.starts_with("planted_"); });
    return list;
}

}  // namespace orchard::explore::testing_support
