// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <string_view>

namespace orchard {

/// The version of this source. The build system states the same one; a test compares them.
inline constexpr std::string_view version_text = "0.1.0";

}  // namespace orchard
