# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
#
# `orchard arena`, a program of its own: the kernels of all cases are compiled for each allocator, which nothing else
# needs. It also has `walk`, `tree` and `graph`, which take --allocator with the published ones there.
#   orchard_arena_objects  the command, the cases, Orchard's allocator and the floor; arena_tests has the same
#   orchard_arena          the program, with the published allocators too (profiling/arena/published), and with those of
#                          ORCHARD_ARENA_ADAPTERS
# docs/arena.md shows how to add one.

set(ORCHARD_ARENA_ADAPTERS "" CACHE STRING "Sources of further allocators for `orchard arena`, a list of *.cu and *.cpp")
set(ORCHARD_ARENA_INCLUDE_DIRS "" CACHE STRING "Where these sources find the headers of their allocators")
set(ORCHARD_ARENA_LIBRARIES "" CACHE STRING "Libraries of these allocators, a list of files")
set(ORCHARD_ARENA_COMMITS "" CACHE STRING "Commits of their code, a list of NAME=COMMIT for profiling/adapters/NAME.cu")
mark_as_advanced(ORCHARD_ARENA_ADAPTERS ORCHARD_ARENA_INCLUDE_DIRS ORCHARD_ARENA_LIBRARIES ORCHARD_ARENA_COMMITS)

orchard_sources(arena_sources profiling/arena)
set(arena_published ${arena_sources})
list(FILTER arena_published INCLUDE REGEX "/profiling/arena/published/")
list(FILTER arena_sources EXCLUDE REGEX "/profiling/arena/(published|example)/") # arena_tests has the example
set(arena_adapters ${ORCHARD_ARENA_ADAPTERS})
list(FILTER arena_adapters INCLUDE REGEX "\\.cu$")
if(arena_adapters AND NOT ORCHARD_HAS_CUDA)
    set_source_files_properties(${arena_adapters} PROPERTIES LANGUAGE CXX)
endif()

# Their authors' code calls constexpr functions of the host.
set_source_files_properties(
    "${CMAKE_CURRENT_SOURCE_DIR}/profiling/adapters/ouroboros_authors.cu"
    "${CMAKE_CURRENT_SOURCE_DIR}/profiling/adapters/malloc_mc.cu"
    PROPERTIES COMPILE_OPTIONS "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;--extended-lambda>")

# RMM brings the version of CCCL that it needs. nvcc looks for its own version before it looks in system folders.
set_source_files_properties("${CMAKE_CURRENT_SOURCE_DIR}/profiling/adapters/rmm_pool.cu" PROPERTIES
                            INCLUDE_DIRECTORIES "${ORCHARD_ARENA_INCLUDE_DIRS}")

# The rows of an adapter name the commit of its authors' code.
foreach(pair IN LISTS ORCHARD_ARENA_COMMITS)
    string(REGEX MATCH "^([^=]+)=(.+)$" pair "${pair}")
    set_property(SOURCE "${CMAKE_CURRENT_SOURCE_DIR}/profiling/adapters/${CMAKE_MATCH_1}.cu" APPEND PROPERTY
                 COMPILE_DEFINITIONS "ORCHARD_ADAPTER_COMMIT=\"${CMAKE_MATCH_2}\"")
endforeach()

# An object library: commands and allocators register themselves in static objects.
add_library(orchard_arena_objects OBJECT EXCLUDE_FROM_ALL ${arena_sources})
orchard_target(orchard_arena_objects)
target_link_libraries(orchard_arena_objects PUBLIC orchard_cli)
orchard_precompile(orchard_arena_objects <nlohmann/json.hpp> <runtime/heap/heap.hpp>)
orchard_unite(orchard_arena_objects)

orchard_sources(arena_applications examples/walk examples/trees examples/dynamic_graph examples/graph examples/report
                examples/published)
add_executable(orchard_arena EXCLUDE_FROM_ALL runtime/cli/main.cpp ${arena_published} ${arena_applications}
                             ${ORCHARD_ARENA_ADAPTERS})
orchard_target(orchard_arena)
set_target_properties(orchard_arena PROPERTIES OUTPUT_NAME orchard RUNTIME_OUTPUT_DIRECTORY arena)
target_include_directories(orchard_arena PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/generated")
target_include_directories(orchard_arena SYSTEM PRIVATE ${ORCHARD_ARENA_INCLUDE_DIRS})
target_link_libraries(orchard_arena PRIVATE orchard_arena_objects ZLIB::ZLIB ${ORCHARD_ARENA_LIBRARIES})
add_dependencies(orchard_arena orchard_commit)
