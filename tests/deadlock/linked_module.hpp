// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <vector>

#include "absl/status/status.h"

namespace orchard::test {

/// A small module of machine code for the current GPU, which is compiled once, so that loading it is only that.
class linked_module {
public:
    /// Compiles the module. Errors: the driver's own; Unavailable if the driver cannot compile.
    absl::Status link();
    /// `cuModuleLoadData`; the module stays loaded. Errors: the driver's own. After `link`.
    absl::Status load();

private:
    std::vector<char> code_;
};

}  // namespace orchard::test
