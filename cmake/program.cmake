# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
#
# All but the library: the program with its commands, the tests and the benchmarks. CMakeLists.txt has sorted the sources.

configure_file(cmake/checkout.hpp.in generated/checkout.hpp @ONLY)

# Looked up by each build, since a commit needs no new configuration. Only the programs' main files include the
# header, so that nothing else is compiled or linked again after a commit.
set(ORCHARD_COMMIT "" CACHE STRING "The commit that is built; empty: git says it, where this is a checkout")
mark_as_advanced(ORCHARD_COMMIT)
add_custom_target(
    orchard_commit VERBATIM
    BYPRODUCTS "${CMAKE_CURRENT_BINARY_DIR}/generated/commit.hpp"
    COMMAND "${CMAKE_COMMAND}" "-DSOURCE=${CMAKE_CURRENT_SOURCE_DIR}" "-DGIVEN=${ORCHARD_COMMIT}"
            "-DOUTPUT=${CMAKE_CURRENT_BINARY_DIR}/generated/commit.hpp" -P
            "${CMAKE_CURRENT_SOURCE_DIR}/cmake/commit.cmake")

# --- the exploring scheduler: runs lanes and services in simulated orders, for tests ---
add_library(orchard_explorer STATIC ${explorer_sources})
orchard_target(orchard_explorer)
target_link_libraries(orchard_explorer PUBLIC orchard_library)
orchard_precompile(orchard_explorer <absl/status/statusor.h> <absl/strings/str_format.h>)
orchard_unite(orchard_explorer)

# --- the command line that all programs share ---
add_library(orchard_cli STATIC ${cli_sources})
orchard_target(orchard_cli)
target_link_libraries(orchard_cli PUBLIC orchard_library CLI11::CLI11 nlohmann_json::nlohmann_json ZLIB::ZLIB)
orchard_precompile(orchard_cli <absl/status/statusor.h> <absl/strings/str_format.h>)
orchard_unite(orchard_cli)

# --- the program ---
# An object library: a subcommand registers itself in a static object, which a linker would drop from an archive.
orchard_sources(command_sources examples profiling)
set(bench_sources ${command_sources})
list(FILTER bench_sources INCLUDE REGEX "_bench\\.(cpp|cu)$")
list(FILTER command_sources EXCLUDE REGEX "_bench\\.(cpp|cu)$")
# Part of no program: profiling/report/registers.py compiles the first, a reader of docs/programs.md the second; the third
# is a project of its own. The fourth is a program of its own (arena.cmake), to which a user may add the fifth.
list(FILTER command_sources EXCLUDE REGEX "/profiling/(registers|driver_locks|minimal|arena|adapters)/")
list(FILTER command_sources EXCLUDE REGEX "/examples/published/") # of the arena's program, too
include(profile) # a library of its own: profiling/profile/injection
list(REMOVE_ITEM command_sources ${injection_sources})
# Programs of their own, which know nothing of Orchard: below.
set(unchanged_sources ${command_sources})
list(FILTER unchanged_sources INCLUDE REGEX "/examples/unchanged/")
list(FILTER command_sources EXCLUDE REGEX "/examples/unchanged/")
# Each application has names like the others' (`rounds`, `step`), so that none is compiled with another.
set(application_sources ${command_sources})
list(FILTER application_sources INCLUDE REGEX "/profiling/uvm/applications/")
# Their functions for host and device are also called with lambdas of the host, which nvcc allows with this option alone.
# Nothing else may need it: users' sources are compiled without.
set_source_files_properties(
    ${application_sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON
                                      COMPILE_OPTIONS "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>")
add_library(orchard_commands OBJECT ${command_sources} "${CMAKE_CURRENT_SOURCE_DIR}/cmake/no_commands.cpp")
orchard_target(orchard_commands)
target_include_directories(orchard_commands PUBLIC "${CMAKE_CURRENT_BINARY_DIR}/generated")
target_link_libraries(orchard_commands PUBLIC orchard_cli orchard_uvm_model ZLIB::ZLIB)
target_compile_definitions(orchard_commands PRIVATE ORCHARD_HAS_NCURSES=${ORCHARD_HAS_NCURSES})
if(ORCHARD_HAS_NCURSES)
    target_link_libraries(orchard_commands PUBLIC ${ORCHARD_NCURSES} ${ORCHARD_TINFO})
endif()
orchard_precompile(orchard_commands <nlohmann/json.hpp> <runtime/heap/heap.hpp>)
orchard_unite(orchard_commands)

if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/runtime/cli/main.cpp")
    add_executable(orchard runtime/cli/main.cpp)
    orchard_target(orchard)
    target_link_libraries(orchard PRIVATE orchard_commands)
    add_dependencies(orchard orchard_commit)
    if(TARGET orchard_profile)
        add_dependencies(orchard orchard_profile)
    endif()
    # The manual page and the completions are the program's own words, so that they fit what it takes. A program with the
    # thread sanitizer does not start everywhere, and one for another machine does not start here.
    if(NOT ORCHARD_SANITIZE STREQUAL "thread" AND NOT CMAKE_CROSSCOMPILING)
        set(shell_files "${CMAKE_CURRENT_BINARY_DIR}/generated/shell")
        file(MAKE_DIRECTORY "${shell_files}")
        add_custom_command(
            TARGET orchard POST_BUILD VERBATIM
            BYPRODUCTS "${shell_files}/orchard.1" "${shell_files}/orchard" "${shell_files}/_orchard"
            COMMAND orchard generate man "${shell_files}/orchard.1"
            COMMAND orchard generate bash "${shell_files}/orchard"
            COMMAND orchard generate zsh "${shell_files}/_orchard")
    endif()

    # The part of it that `./orchard demo` needs, which is built in a quarter of the time.
    orchard_sources(walk_sources examples/walk examples/graph examples/report)
    add_executable(orchard_walk EXCLUDE_FROM_ALL runtime/cli/main.cpp ${walk_sources})
    orchard_target(orchard_walk)
    set_target_properties(orchard_walk PROPERTIES OUTPUT_NAME orchard RUNTIME_OUTPUT_DIRECTORY walk)
    target_include_directories(orchard_walk PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/generated")
    target_link_libraries(orchard_walk PRIVATE orchard_cli ZLIB::ZLIB)
    add_dependencies(orchard_walk orchard_commit)
endif()

include(arena)

# --- programs without Orchard in their source, with CUDA's heap and with Orchard's: docs/replace_malloc.md ---
if(ORCHARD_HAS_CUDA)
    add_custom_target(orchard_unchanged)
    foreach(source IN LISTS unchanged_sources)
        cmake_path(GET source STEM name)
        foreach(heap cuda orchard)
            add_executable(${name}_${heap} ${source})
            set_target_properties(
                ${name}_${heap} PROPERTIES CUDA_SEPARABLE_COMPILATION ON CUDA_STANDARD 17 RUNTIME_OUTPUT_DIRECTORY
                                                                                          "unchanged/${heap}"
                                           OUTPUT_NAME ${name})
            target_include_directories(${name}_${heap} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
            add_dependencies(orchard_unchanged ${name}_${heap})
        endforeach()
        target_link_libraries(${name}_orchard PRIVATE orchard::replace_malloc)
    endforeach()
endif()

# --- benchmarks ---
add_custom_target(orchard_benchmarks)
if(ORCHARD_BENCHMARKS AND benchmark_FOUND)
    foreach(source IN LISTS bench_sources)
        cmake_path(GET source STEM name)
        add_executable(${name} ${source})
        orchard_target(${name})
        target_link_libraries(${name} PRIVATE orchard_commands benchmark::benchmark_main benchmark::benchmark)
        add_dependencies(orchard_benchmarks ${name})
    endforeach()
endif()

include(CTest)
if(BUILD_TESTING AND ORCHARD_TESTS)
    include(explore)
    include(tests)
    include(fuzz)
endif()
