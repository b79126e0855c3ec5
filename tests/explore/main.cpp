// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The program `orchard_explore`: the scenarios and their runner. `./orchard explore` builds and starts it.
#include <commit.hpp>

#include "runtime/cli/command_line.hpp"

int main(int argc, char** argv) { return orchard::command_line::run(argc, argv, ORCHARD_COMMIT); }
