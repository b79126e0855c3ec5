// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The meaning of `automatic` in a heap: the table's layout if the UVM driver moves memory, and the heap's own layout
// otherwise.

#include <gtest/gtest.h>

#include <vector>

#include "runtime/heap/automatic_layout.hpp"
#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

options values_of(backing_option backing, access_pattern pattern) {
    options values;
    values.device = device_option::emulated;
    values.backing = backing;
    values.capacity = segments(8);
    values.emulated_workers = 1;
    values.access_pattern = pattern;
    return values;
}

/// Returns the layout of a heap with these options; its configuration must have the same.
layout layout_of(const options& values) {
    const auto made = heap::create(values);
    EXPECT_TRUE(made.ok()) << made.status();
    if (!made.ok()) {
        return {};
    }
    const layout arrays = device::heap_view(made->ref().view()).arrays;
    EXPECT_EQ(made->configuration().layout, arrays);
    return arrays;
}

std::vector<access_pattern> all_patterns() {
    std::vector<access_pattern> all;
    for (std::size_t i = 0; i < access_pattern_names.size(); ++i) {
        all.push_back(static_cast<access_pattern>(i));
    }
    return all;
}

TEST(heap_automatic_layout, of_managed_memory_is_the_tables) {
    for (const access_pattern p : all_patterns()) {
        const recommendation& expected = recommended_layouts[static_cast<std::size_t>(p)];
        options values = values_of(backing_option::managed, p);
        EXPECT_EQ(layout_of(values), expected.fits.arrays) << name_of(p);
        values.allow_oversubscription = true;
        EXPECT_EQ(layout_of(values), expected.oversubscribed.arrays) << name_of(p);
    }
}

TEST(heap_automatic_layout, of_memory_that_stays_is_its_own) {
    for (const access_pattern p : all_patterns()) {
        EXPECT_EQ(layout_of(values_of(backing_option::automatic, p)), layout::automatic()) << name_of(p);
        EXPECT_EQ(layout_of(values_of(backing_option::fixed, p)), layout::automatic()) << name_of(p);
        options values = values_of(backing_option::elastic, p);
        EXPECT_EQ(layout_of(values), layout::automatic()) << name_of(p);
        values.host_budget = segments(8);
        EXPECT_EQ(layout_of(values), layout::automatic()) << name_of(p) << ": the spill tier is reached over the bus";
        values = values_of(backing_option::managed, p);
        values.advice = managed_advice::cpu_resident;
        values.allow_oversubscription = true;
        EXPECT_EQ(layout_of(values), layout::automatic()) << name_of(p) << ": so is what stays on the host";
    }
}

TEST(heap_automatic_layout, is_not_asked_where_another_is_named) {
    options values = values_of(backing_option::managed, access_pattern::growth);
    values.allow_oversubscription = true;
    values.layout = layout::linear();
    EXPECT_EQ(layout_of(values), layout::linear());
}

}  // namespace
}  // namespace orchard::test
