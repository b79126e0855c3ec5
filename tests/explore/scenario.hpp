// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A scenario: a small program of lanes and host threads under the exploring scheduler, with an oracle that decides
/// whether an outcome is allowed.

#include <cstdint>
#include <string>
#include <vector>

#include "device/simt/explore/simulation.hpp"

namespace orchard::explore {

/// The scale of a scenario's run; shrinking reduces it.
struct scale {
    std::vector<simt::explore::block_shape> blocks;  ///< lanes of each warp of each block
    int operations = 1;                              ///< rounds that each lane makes
};

/// Returns the number of lanes.
inline std::uint32_t lanes_of(const scale& size) {
    std::uint32_t lanes = 0;
    for (const auto& block : size.blocks) {
        for (const int n : block) {
            lanes += static_cast<std::uint32_t>(n);
        }
    }
    return lanes;
}

/// The environment of a scenario.
struct world {
    simt::explore::simulation& s;
    const scale& size;
};

struct scenario {
    std::string name;
    std::string help;  ///< one sentence
    scale size;        ///< at full size
    void (*run)(world& w);
};

/// Returns all scenarios, by name.
const std::vector<scenario>& all_scenarios();

/// Returns the scenario; null if there is none of that name.
const scenario* find_scenario(const std::string& name);

/// A static object that adds a scenario:
///
///     const registrar credits{{"credits", "More groups than slots.", {{{3, 2}, {3}}, 2}, run_credits}};
class registrar {
public:
    explicit registrar(scenario s);
};

}  // namespace orchard::explore
