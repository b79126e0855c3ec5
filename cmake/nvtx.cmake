# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
#
# Finds the headers of NVTX 3, which the CUDA toolkit has; nothing is linked. Sets ORCHARD_HAS_NVTX and
# ORCHARD_NVTX_INCLUDE_DIR. The headers are given to one source alone, which is compiled by itself: they define functions.

set(ORCHARD_HAS_NVTX OFF)
if(NOT ORCHARD_NVTX STREQUAL "OFF")
    # The side of CUDA need not be built: the emulated device's heaps are marked as well.
    find_path(ORCHARD_NVTX_INCLUDE_DIR nvtx3/nvToolsExt.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ENV CUDA_HOME ENV CUDA_PATH
              PATHS /usr/local/cuda PATH_SUFFIXES include targets/x86_64-linux/include)
    mark_as_advanced(ORCHARD_NVTX_INCLUDE_DIR)
    if(ORCHARD_NVTX_INCLUDE_DIR)
        set(ORCHARD_HAS_NVTX ON)
    elseif(ORCHARD_NVTX STREQUAL "ON")
        message(FATAL_ERROR "ORCHARD_NVTX is ON, but nvtx3/nvToolsExt.h was not found; install the CUDA toolkit, set "
                            "CUDA_HOME, or choose OFF")
    else()
        message(STATUS "Orchard: NVTX was not found: profilers are told nothing (it comes with the CUDA toolkit)")
    endif()
endif()

# Compiles this source with NVTX, in the target that this folder's CMakeLists.txt makes.
function(orchard_with_nvtx source)
    if(ORCHARD_HAS_NVTX)
        set_source_files_properties(
            "${source}" PROPERTIES COMPILE_DEFINITIONS "ORCHARD_HAS_NVTX=1;NVTX_AS_SYSTEM_HEADER" INCLUDE_DIRECTORIES
            "${ORCHARD_NVTX_INCLUDE_DIR}" SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
    endif()
endfunction()

# Builds the tool that records the calls of NVTX, for tests, and tells them where it is.
function(orchard_use_nvtx_recorder name)
    if(NOT TARGET orchard_nvtx_recorder)
        add_library(orchard_nvtx_recorder MODULE "${CMAKE_CURRENT_SOURCE_DIR}/tests/nvtx/recorder/nvtx_recorder.cpp")
        orchard_target(orchard_nvtx_recorder)
        target_include_directories(orchard_nvtx_recorder SYSTEM PRIVATE "${ORCHARD_NVTX_INCLUDE_DIR}")
    endif()
    add_dependencies(${name} orchard_nvtx_recorder)
    target_compile_definitions(${name} PRIVATE ORCHARD_NVTX_RECORDER="$<TARGET_FILE:orchard_nvtx_recorder>")
endfunction()
