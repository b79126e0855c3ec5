# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
#
# What a builder may choose. CMakePresets.json sets these for each preset.

set(ORCHARD_CUDA AUTO CACHE STRING "CUDA side: ON (required), OFF, AUTO (where a toolkit is found; on its own only if there is a GPU, too)")
set_property(CACHE ORCHARD_CUDA PROPERTY STRINGS AUTO ON OFF)

set(ORCHARD_NVTX AUTO CACHE STRING "Marks for profilers by NVTX: ON (required), OFF, AUTO (where its headers are found)")
set_property(CACHE ORCHARD_NVTX PROPERTY STRINGS AUTO ON OFF)

set(architectures "80-real;90")
if(PROJECT_IS_TOP_LEVEL)
    set(ORCHARD_CUDA_ARCHITECTURES "${architectures}" CACHE STRING
        "CUDA architectures: machine code for 8.0 and 9.0, and PTX of 9.0 for what comes later")
elseif(NOT DEFINED ORCHARD_CUDA_ARCHITECTURES)
    # Those of the project that adds this one, also OFF. Not in the cache, so that they follow when it changes them.
    if(NOT "${CMAKE_CUDA_ARCHITECTURES}" STREQUAL "")
        set(architectures "${CMAKE_CUDA_ARCHITECTURES}")
    endif()
    set(ORCHARD_CUDA_ARCHITECTURES "${architectures}")
endif()
option(ORCHARD_PROGRAM "Build the program `orchard`; OFF: the library alone" ${PROJECT_IS_TOP_LEVEL})
include(CMakeDependentOption)
cmake_dependent_option(ORCHARD_TESTS "Build the tests, which run the program's commands, too" ON ORCHARD_PROGRAM OFF)
cmake_dependent_option(ORCHARD_BENCHMARKS "Build the benchmarks of host structures, where Google Benchmark is" ON
                       ORCHARD_PROGRAM OFF)
option(ORCHARD_INSTALL "Make rules for `cmake --install`" ${PROJECT_IS_TOP_LEVEL})

set(ORCHARD_SANITIZE "" CACHE STRING "Sanitizers of the host code: empty, 'address,undefined' or 'thread'")
set_property(CACHE ORCHARD_SANITIZE PROPERTY STRINGS "" "address,undefined" "thread")

set(ORCHARD_CUPTI AUTO CACHE STRING "The recorder of `orchard profile`: ON (required), OFF, AUTO (where CUPTI's header is)")
set_property(CACHE ORCHARD_CUPTI PROPERTY STRINGS AUTO ON OFF)

set(ORCHARD_MALLOCMC_DIR "" CACHE PATH "Sources of mallocMC, with which tests/malloc_mc is compiled; empty: left out")
set(ORCHARD_ALPAKA_DIR "" CACHE PATH "Sources of alpaka for tests/malloc_mc; empty: ORCHARD_MALLOCMC_DIR/alpaka")

option(ORCHARD_WERROR "Warnings are errors" OFF)
option(ORCHARD_FUZZ "Build the fuzz targets for libFuzzer, which needs clang (preset fuzz)" OFF)
option(ORCHARD_UNITE "Compile several sources at a time; a change of one then compiles its neighbours, too" ON)

if(PROJECT_IS_TOP_LEVEL)
    mark_as_advanced(CMAKE_CXX_FLAGS_CHECKED CMAKE_CUDA_FLAGS_CHECKED)
endif()

set(known_types Release Checked Debug RelWithDebInfo)
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE IN_LIST known_types)
    message(FATAL_ERROR "CMAKE_BUILD_TYPE is '${CMAKE_BUILD_TYPE}'; choose one of: ${known_types}")
endif()
set(known_cuda AUTO ON OFF)
if(NOT ORCHARD_CUDA IN_LIST known_cuda)
    message(FATAL_ERROR "ORCHARD_CUDA is '${ORCHARD_CUDA}'; choose one of: ${known_cuda}")
endif()
if(NOT ORCHARD_NVTX IN_LIST known_cuda)
    message(FATAL_ERROR "ORCHARD_NVTX is '${ORCHARD_NVTX}'; choose one of: ${known_cuda}")
endif()
if(NOT ORCHARD_CUPTI IN_LIST known_cuda)
    message(FATAL_ERROR "ORCHARD_CUPTI is '${ORCHARD_CUPTI}'; choose one of: ${known_cuda}")
endif()

# Language features without compiler extensions, and a database for clang-tidy and editors.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
if(NOT PROJECT_IS_TOP_LEVEL)
    return() # the rest is a matter of the project that adds this one
endif()
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
    find_program(ORCHARD_CCACHE ccache)
    mark_as_advanced(ORCHARD_CCACHE)
    if(ORCHARD_CCACHE)
        # One cache for all checkouts, precompiled headers too: without the list of CCACHE_SLOPPINESS it would keep none.
        # CCACHE_DEPEND: it compares files, not preprocessed text. Where only a comment of a header has changed, that text
        # is the same. GCC, however, knows a header of a precompiled one by its contents, and would include it again.
        set(cached env "CCACHE_BASEDIR=${CMAKE_CURRENT_SOURCE_DIR}" CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
                   CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
                   "${ORCHARD_CCACHE}")
        set(CMAKE_CXX_COMPILER_LAUNCHER ${cached})
        set(CMAKE_CUDA_COMPILER_LAUNCHER ${cached})
    endif()
endif()
