// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <checkout.hpp>
#include <fstream>
#include <sstream>

#include "tests/explore/planted.hpp"

namespace orchard::explore {
namespace {

TEST(documentation, tells_of_every_scenario) {
    std::ostringstream page;
    page << std::ifstream(ORCHARD_SOURCE_DIR "/docs/reliability.md").rdbuf();
    for (const scenario& s : testing_support::real_scenarios()) {
        EXPECT_THAT(page.str(), testing::HasSubstr("\n| `" + s.name + "` | " + s.help + " |\n"));
    }
}

}  // namespace
}  // namespace orchard::explore
