# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
#
# Run by each build, as a script: writes OUTPUT, a header with the commit of the checkout SOURCE. The header stays as it
# is while the commit does, so that nothing is compiled again. "-dirty" follows where a file of the checkout has changed.
# Where SOURCE is no checkout, as in a source package, the commit is GIVEN, or else unknown.

set(commit "${GIVEN}")
find_program(git git)
if(NOT commit AND git)
    # A source package may lie within a checkout of something else.
    execute_process(COMMAND "${git}" -C "${SOURCE}" rev-parse --show-toplevel OUTPUT_VARIABLE top ERROR_QUIET
                    OUTPUT_STRIP_TRAILING_WHITESPACE)
    file(REAL_PATH "${SOURCE}" source)
    if(top STREQUAL source)
        # No tag is taken, so that a hash is left.
        execute_process(COMMAND "${git}" -C "${SOURCE}" describe --always --dirty --exclude "*" OUTPUT_VARIABLE commit
                        ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    endif()
endif()
if(NOT commit)
    set(commit unknown)
endif()
# Writes only where the text differs.
file(CONFIGURE OUTPUT "${OUTPUT}" @ONLY CONTENT [[
// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The commit that the programs are built from. Made by cmake/commit.cmake.

#define ORCHARD_COMMIT "@commit@"
]])
