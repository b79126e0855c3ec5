// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `orchard top --listen PORT`: a server for Prometheus.

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"

namespace orchard::top {

/// Answers each HTTP request to 127.0.0.1:`port` with the text that `metrics` returns, one after the other, until the
/// process is ended. Other machines cannot reach it: let a proxy pass requests on. Prints the address to standard error
/// when it listens.
///
/// Errors: Unavailable with the system's text if the port cannot be had.
/// @param port      0: one that is free
/// @param requests  returns after so many; 0: never
absl::Status serve(std::uint16_t port, const std::function<std::string()>& metrics, std::uint64_t requests = 0);

}  // namespace orchard::top
