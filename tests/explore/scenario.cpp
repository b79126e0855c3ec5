// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "tests/explore/scenario.hpp"

#include <algorithm>
#include <utility>

namespace orchard::explore {
namespace {

std::vector<scenario>& registered() {
    static std::vector<scenario> list;
    return list;
}

}  // namespace

registrar::registrar(scenario s) {
    auto& list = registered();
    // Sorted by name, so that the order does not depend on the linker.
    list.insert(std::ranges::upper_bound(list, s.name, {}, &scenario::name), std::move(s));
}

const std::vector<scenario>& all_scenarios() { return registered(); }

const scenario* find_scenario(const std::string& name) {
    const auto& list = registered();
    const auto found = std::ranges::find(list, name, &scenario::name);
    return found == list.end() ? nullptr : &*found;
}

}  // namespace orchard::explore
