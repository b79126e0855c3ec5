// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "runtime/cli/command_line.hpp"

int main(int argc, char** argv) { return orchard::command_line::run(argc, argv); }
