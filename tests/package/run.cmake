# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
#
# run(WHAT COMMAND...): runs a command, says that WHAT is done, and sets `output`. If the command fails, so does the script.

function(run what)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
    if(NOT failed EQUAL 0)
        message(FATAL_ERROR "${what} failed (${failed}):\n${output}")
    endif()
    message(STATUS "${what}: done")
    set(output "${output}" PARENT_SCOPE)
endfunction()
