# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
#
# tests/malloc_mc is compiled against the sources of mallocMC and alpaka that the builder names, with the CUDA side. Sets
# orchard_malloc_mc_includes to their include folders; empty where the tests are left out, and a message says why.

set(orchard_malloc_mc_includes "")
if(NOT ORCHARD_MALLOCMC_DIR)
    message(STATUS "Orchard: ORCHARD_MALLOCMC_DIR is not set: the tests of the policies for mallocMC are left out")
    return()
endif()
if(NOT ORCHARD_HAS_CUDA)
    message(STATUS "Orchard: the tests of the policies for mallocMC need the CUDA side, and are left out")
    return()
endif()
set(alpaka_dir "${ORCHARD_ALPAKA_DIR}")
if(NOT alpaka_dir)
    set(alpaka_dir "${ORCHARD_MALLOCMC_DIR}/alpaka")
endif()
# Up to version 2.6 the headers of mallocMC are in src/include.
find_path(orchard_malloc_mc_include mallocMC/allocator.hpp PATHS "${ORCHARD_MALLOCMC_DIR}" PATH_SUFFIXES include src/include
          NO_DEFAULT_PATH NO_CACHE)
find_path(orchard_alpaka_include alpaka/alpaka.hpp PATHS "${alpaka_dir}" PATH_SUFFIXES include NO_DEFAULT_PATH NO_CACHE)
if(NOT orchard_malloc_mc_include)
    message(FATAL_ERROR "ORCHARD_MALLOCMC_DIR is '${ORCHARD_MALLOCMC_DIR}', which has no include/mallocMC/allocator.hpp")
endif()
if(NOT orchard_alpaka_include)
    message(FATAL_ERROR "'${alpaka_dir}' has no include/alpaka/alpaka.hpp; set ORCHARD_ALPAKA_DIR")
endif()
set(orchard_malloc_mc_includes "${orchard_malloc_mc_include}" "${orchard_alpaka_include}")

# The newest sources of mallocMC take the accelerator's tag in place of the accelerator.
file(STRINGS "${orchard_malloc_mc_include}/mallocMC/allocator.hpp" by_tag REGEX "typename T_AccTag" LIMIT_COUNT 1)
set(orchard_malloc_mc_by_tag 0)
if(by_tag)
    set(orchard_malloc_mc_by_tag 1)
endif()

# Compiles a target as alpaka wants it.
function(orchard_use_malloc_mc name)
    target_include_directories(${name} SYSTEM PRIVATE ${orchard_malloc_mc_includes})
    target_compile_definitions(${name} PRIVATE ALPAKA_ACC_GPU_CUDA_ENABLED
                                               ORCHARD_MALLOCMC_BY_TAG=${orchard_malloc_mc_by_tag})
    target_compile_options(${name} PRIVATE --extended-lambda --expt-relaxed-constexpr)
endfunction()
