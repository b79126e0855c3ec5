// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The version of Orchard as text: for `orchard --version`, and for the report about the machine.

#include <string_view>

namespace orchard {

/// The version of this source. The build system states it again; a test compares the two.
inline constexpr std::string_view version_text = "0.1.0";

}  // namespace orchard
