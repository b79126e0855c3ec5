# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
#
# Fuzz targets: tests/fuzz/<name>.cpp or .cu -> fuzz_<name>. With ORCHARD_FUZZ (preset `fuzz`, clang) libFuzzer drives
# them; in every other build tests/fuzz/main.cpp does, and CTest runs their corpus and some mutations. More in
# docs/reliability.md.

add_custom_target(orchard_fuzz)

# The mutations of each target in CTest's run: about a second in release.
set(fuzz_runs_graph 1500)
set(fuzz_runs_heap 60)
set(fuzz_runs_live 3000)
set(fuzz_runs_map 3000)
set(fuzz_runs_options 3000)
set(fuzz_runs_profile 20000)
set(fuzz_runs_trace 8000)
set(fuzz_runs_event_trace 3000)

# One target from its sources.
function(orchard_add_fuzz_target target)
    set(name fuzz_${target})
    set(sources ${ARGN})
    if(NOT ORCHARD_FUZZ)
        list(APPEND sources "${CMAKE_CURRENT_SOURCE_DIR}/tests/fuzz/main.cpp")
    endif()
    set(kernels ${sources})
    list(FILTER kernels INCLUDE REGEX "\\.cu$")
    if(kernels AND NOT ORCHARD_HAS_CUDA)
        set_source_files_properties(${kernels} PROPERTIES LANGUAGE CXX)
    endif()
    add_executable(${name} ${sources})
    orchard_target(${name})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/tests")
    target_link_libraries(${name} PRIVATE orchard_cli orchard_uvm_model ZLIB::ZLIB)
    add_dependencies(orchard_fuzz ${name})
    if(ORCHARD_FUZZ)
        target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    elseif(TARGET orchard_tests)
        add_dependencies(orchard_tests ${name})
    endif()
endfunction()

# A run of a target by CTest; `command` may hold words that come before the program.
function(orchard_add_fuzz_test name target command)
    add_test(NAME fuzz.${name} COMMAND ${launch} ${command} $<TARGET_FILE:fuzz_${target}> --seed 1 ${ARGN})
    set_tests_properties(fuzz.${name} PROPERTIES TIMEOUT ${ORCHARD_TEST_TIMEOUT_S} ENVIRONMENT "${environment}")
endfunction()

file(GLOB fuzz_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/tests/fuzz/*.cpp"
     "${CMAKE_CURRENT_SOURCE_DIR}/tests/fuzz/*.cu")
list(FILTER fuzz_sources EXCLUDE REGEX "/main\\.cpp$")
if(ORCHARD_SANITIZE STREQUAL "thread")
    list(FILTER fuzz_sources INCLUDE REGEX "/heap\\.cu$") # the others have one thread
elseif(ORCHARD_SANITIZE AND NOT ORCHARD_FUZZ)
    set(fuzz_sources "") # the preset `fuzz` has them with the same sanitizers
endif()
if("fuzz" IN_LIST ORCHARD_TESTS_LEFT_OUT)
    return()
endif()
foreach(source IN LISTS fuzz_sources)
    cmake_path(GET source STEM target)
    set(beside "") # sources that no library has
    if(target STREQUAL "graph")
        orchard_sources(beside examples/graph)
        list(APPEND beside "${CMAKE_CURRENT_SOURCE_DIR}/examples/dynamic_graph/graph_inputs.cpp")
    elseif(target STREQUAL "live")
        set(beside "${CMAKE_CURRENT_SOURCE_DIR}/profiling/top/formats.cpp"
                   "${CMAKE_CURRENT_SOURCE_DIR}/profiling/top/screen.cpp")
    elseif(target STREQUAL "profile")
        orchard_sources(beside profiling/profile)
        list(FILTER beside EXCLUDE REGEX "/injection/|/profile_command\\.cpp$|/run_profiled\\.cpp$")
    elseif(target STREQUAL "heap")
        set(beside "${CMAKE_CURRENT_SOURCE_DIR}/tests/properties/perform.cu")
    endif()
    orchard_add_fuzz_target(${target} ${source} ${beside})
    if(NOT ORCHARD_FUZZ)
        orchard_add_fuzz_test(${target} ${target} "" --runs ${fuzz_runs_${target}}
                              "${CMAKE_CURRENT_SOURCE_DIR}/tests/fuzz/corpus/${target}")
    endif()
endforeach()

# A fault is found, and the input that was kept shows it again.
if(NOT ORCHARD_FUZZ)
    set(planted "${CMAKE_CURRENT_SOURCE_DIR}/tests/fuzz/planted")
    set(kept "${CMAKE_CURRENT_BINARY_DIR}/tests/fault-fuzz_planted")
    orchard_add_fuzz_target(planted "${planted}/planted.cpp")
    set(fails sh -c "! \"$@\"" sh)
    orchard_add_fuzz_test(planted planted "${fails}" --runs 100000 "${planted}/corpus")
    orchard_add_fuzz_test(planted_again planted "${fails}" "${kept}")
    set_tests_properties(
        fuzz.planted PROPERTIES FIXTURES_SETUP planted PASS_REGULAR_EXPRESSION
        "fault: the planted one.*the input was written; repeat it with: [^\n]*${kept}\n.mutation [0-9]+ of seed 1.\n")
    set_tests_properties(
        fuzz.planted_again PROPERTIES FIXTURES_REQUIRED planted PASS_REGULAR_EXPRESSION
        "fault: the planted one.*repeat it with: [^\n]*${kept}\n")
endif()
