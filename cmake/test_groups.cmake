# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
#
# A script that runs when a program of tests has been linked: asks it for its cases and writes a file for CTest.
#   - A suite is one test: its cases run one after another in one process, which costs less than a process for each.
#   - A suite of more than LARGEST_GROUP cases is divided by the last part of its cases' names, the parameter.
#   - A case that SLOW matches is a test of its own with the label `slow`, so that several run side by side.
#   - EACH_CASE makes a test of every case.
# Cases that LEFT_OUT matches are none, nor are those that GoogleTest disables. SLOW and LEFT_OUT are patterns as in
# --gtest_filter. Further variables: PROGRAM, LAUNCH (what starts it; may be empty), PREFIX (of the names), OUTPUT (the
# file), TIMEOUT, SLOW_TIMEOUT (of one case, in seconds), COST (of a case that is not slow, beside other programs'),
# ENVIRONMENT (NAME=VALUE, or empty), HAS_CUDA.

cmake_minimum_required(VERSION 3.25)

set(LARGEST_GROUP 60)
set(ALL_SKIPPED 4) # cmake/test_main.cpp
set(text "")

# Sets `result` to the lines of --gtest_list_tests under a filter, which must have a negative part.
function(list_cases result filter)
    execute_process(
        COMMAND ${LAUNCH} "${PROGRAM}" --gtest_list_tests "--gtest_filter=${filter}:*DISABLED_*"
        RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE errors TIMEOUT 60)
    if(NOT failed EQUAL 0)
        file(REMOVE "${PROGRAM}" "${OUTPUT}") # otherwise the next build would take this one for done
        message(FATAL_ERROR "${PROGRAM} does not list its cases (${failed}):\n${output}${errors}")
    endif()
    # Values of parameters may have what CMake's lists are made of. They stand behind a "#", which no name has.
    string(REGEX REPLACE " *#[^\n]*" "" output "${output}")
    string(REGEX MATCHALL "[^\n]+" lines "${output}")
    set(${result} "${lines}" PARENT_SCOPE)
endfunction()

# Writes one test. CTest starts those of the highest cost first, until it knows from an earlier run how long each takes.
function(write_test name filter cost timeout label)
    set(properties "TIMEOUT ${timeout} COST ${cost} SKIP_RETURN_CODE ${ALL_SKIPPED}")
    if(EACH_CASE) # a main of its own
        string(APPEND properties " SKIP_REGULAR_EXPRESSION [==[\\[  SKIPPED \\]]==]")
    endif()
    if(label)
        string(APPEND properties " LABELS ${label}")
    endif()
    # The first fill a GPU with threads that wait, and make hundreds of copies meanwhile: each copy of one process would
    # wait for the time slices of all others. The second compare the free memory of the GPU, which others take.
    if(name MATCHES "heap_host_blocks.*cuda" OR (name STREQUAL "all/heaps" AND HAS_CUDA))
        string(APPEND properties " RUN_SERIAL ON")
    endif()
    if(ENVIRONMENT)
        string(APPEND properties " ENVIRONMENT [==[${ENVIRONMENT}]==]")
    endif()
    set(command "")
    foreach(word IN LISTS LAUNCH PROGRAM)
        string(APPEND command " [==[${word}]==]")
    endforeach()
    set(text "${text}add_test([==[${PREFIX}${name}]==]${command} [==[--gtest_filter=${filter}]==])
set_tests_properties([==[${PREFIX}${name}]==] PROPERTIES ${properties})
" PARENT_SCOPE)
endfunction()

# Writes a test of several cases, which have a sixtieth of the limit each on top of one that hangs.
function(write_group name filter cases)
    math(EXPR cost "${cases} * ${COST}")
    math(EXPR timeout "${TIMEOUT} + ${TIMEOUT} * ${cases} / 60")
    write_test("${name}" "${filter}" ${cost} ${timeout} "")
    set(text "${text}" PARENT_SCOPE)
endfunction()

# A suite's cases that are not slow, in one test or one for each parameter.
function(write_suite suite cases)
    list(LENGTH cases count)
    if(count EQUAL 0)
        return()
    elseif(count GREATER LARGEST_GROUP OR EACH_CASE)
        set(parts "")
        foreach(case IN LISTS cases)
            string(REGEX REPLACE "^[^/]*/" "*/" part "${case}")
            if(EACH_CASE)
                set(part "${case}")
            endif()
            list(APPEND parts "${part}")
        endforeach()
        list(LENGTH parts all)
        set(distinct ${parts})
        list(REMOVE_DUPLICATES distinct)
        list(LENGTH distinct count)
        math(EXPR each "(${all} + ${count} - 1) / ${count}")
        foreach(part IN LISTS distinct)
            write_group("${suite}${part}" "${suite}${part}${without}" ${each})
        endforeach()
    else()
        string(REGEX REPLACE "\\.$" "" name "${suite}")
        write_group("${name}" "${suite}*${without}" ${count})
    endif()
    set(text "${text}" PARENT_SCOPE)
endfunction()

string(JOIN ":" without "-${SLOW}" ${LEFT_OUT})
list_cases(lines "${without}")
set(suite "")
set(cases "")
foreach(line IN LISTS lines)
    if(line MATCHES "^  (.+)$")
        list(APPEND cases "${CMAKE_MATCH_1}")
    elseif(line MATCHES "\\.$")
        write_suite("${suite}" "${cases}")
        set(suite "${line}")
        set(cases "")
    endif()
endforeach()
write_suite("${suite}" "${cases}")

list_cases(lines "${SLOW}-${LEFT_OUT}")
foreach(line IN LISTS lines)
    if(line MATCHES "^  (.+)$")
        set(case "${suite}${CMAKE_MATCH_1}")
        write_test("${case}" "${case}" 1000 ${SLOW_TIMEOUT} slow)
    elseif(line MATCHES "\\.$")
        set(suite "${line}")
    endif()
endforeach()

file(WRITE "${OUTPUT}" "${text}")
