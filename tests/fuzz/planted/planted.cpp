// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A target with a fault, which shows that tests/fuzz/main.cpp finds faults and keeps their inputs.

#include "tests/fuzz/target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    orchard::fuzz::expect(text.find("boom") == std::string_view::npos, "the planted one");
    return 0;
}
