// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "examples/report/check.hpp"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace orchard::examples {

bool passed(std::span<const check> checks) {
    return !checks.empty() && std::ranges::all_of(checks, [](const check& c) { return c.passed || !c.required; });
}

bool used_all(std::span<const check> checks) { return std::ranges::all_of(checks, &check::passed); }

std::string checks_text(std::span<const check> checks) {
    std::string text = "checks\n";
    for (const check& c : checks) {
        const char* const verdict = c.passed ? "passed" : c.required ? "FAILED" : "unused";
        absl::StrAppendFormat(&text, "  %-6s  %-30s %s\n", verdict, c.name, c.detail);
    }
    if (!passed(checks)) {
        return text + "A CHECK FAILED\n";
    }
    return text + "all checks passed" + (used_all(checks) ? "\n" : "; this run did not use every path of the heap\n");
}

nlohmann::ordered_json json_of(std::span<const check> checks) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const check& c : checks) {
        all.push_back({{"name", c.name}, {"passed", c.passed}, {"required", c.required}, {"detail", c.detail}});
    }
    return all;
}

}  // namespace orchard::examples
