# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
#
# The exploring scheduler's scenarios and what runs them:
#   orchard_explore   the program (`./orchard explore`): tests/explore/ without its tests
#   explore_tests     tests/explore/*_test.cpp, by tests.cmake
#   mutants_tests     tests/mutants/*_test.cpp, by tests.cmake, with the library compiled once more, faults and all
# None of them under the thread sanitizer: a simulation is one thread, and its actors' accesses are ordered by it.

if(ORCHARD_SANITIZE STREQUAL "thread")
    return()
endif()

orchard_sources(explore_sources tests/explore)
list(FILTER explore_sources EXCLUDE REGEX "(_test|/main)\\.cpp$")

# An object library: scenarios register themselves in static objects.
add_library(orchard_explore_objects OBJECT ${explore_sources})
orchard_target(orchard_explore_objects)
target_include_directories(orchard_explore_objects PUBLIC "${CMAKE_CURRENT_BINARY_DIR}/generated")
target_link_libraries(orchard_explore_objects PUBLIC orchard_explorer orchard_cli)

orchard_precompile(orchard_explore_objects <tests/explore/heap_world.hpp>)
orchard_unite(orchard_explore_objects)


add_executable(orchard_explore tests/explore/main.cpp)
orchard_target(orchard_explore)
target_link_libraries(orchard_explore PRIVATE orchard_explore_objects)
add_dependencies(orchard_explore orchard_commit)

# The library's own sources with their deliberate faults (device/simt/mutation.cuh). It must not meet the library itself
# in one program: inline functions of the two differ. So no subcommand, which would need it.
orchard_sources(mutant_sources uvm device host)
list(FILTER mutant_sources INCLUDE REGEX "\\.cpp$")
# Nothing that the scenarios run.
list(FILTER mutant_sources EXCLUDE REGEX "/uvm/model/")
list(FILTER explore_sources EXCLUDE REGEX "/explore_command\\.cpp$")
add_library(
    orchard_mutants OBJECT EXCLUDE_FROM_ALL
    ${mutant_sources} runtime/heap/heap_validator.cpp runtime/heap/chunk_validator.cpp runtime/heap/ownership.cpp
    runtime/heap/policy_validator.cpp runtime/heap/class_usage.cpp runtime/text/text_table.cpp
    runtime/trace/kernel_events.cpp ${explore_sources})
orchard_target(orchard_mutants)
orchard_unite(orchard_mutants)
target_include_directories(orchard_mutants PUBLIC "${CMAKE_CURRENT_SOURCE_DIR}/runtime/include"
                                                  "${CMAKE_CURRENT_SOURCE_DIR}")
# The emulated device alone, also in a build with CUDA.
target_compile_definitions(orchard_mutants PUBLIC ORCHARD_MUTATIONS=1 ORCHARD_HAS_CUDA=0
                                                  $<$<CONFIG:Checked>:ORCHARD_CHECKED=1>)
target_link_libraries(orchard_mutants PUBLIC ${ORCHARD_ABSEIL} Boost::context Threads::Threads
                                             nlohmann_json::nlohmann_json)
orchard_precompile(orchard_mutants <tests/explore/heap_world.hpp>)
