# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
#
# orchard_profile: liborchard_profile.so, which `orchard profile` lets the driver load into a program (docs/profile.md).
# It is built where CUPTI's header is, needs no CUDA compiler, and is linked neither with CUPTI nor with Orchard.

set(ORCHARD_HAS_CUPTI OFF)
set(orchard_cupti_folder "")
set(orchard_profile_folder "${CMAKE_INSTALL_LIBDIR}/orchard")
if(NOT ORCHARD_CUPTI STREQUAL "OFF")
    set(toolkits "$ENV{CUDA_HOME}" "$ENV{CUDA_PATH}" /usr/local/cuda)
    if(CUDAToolkit_ROOT)
        list(PREPEND toolkits "${CUDAToolkit_ROOT}")
    endif()
    find_path(ORCHARD_CUPTI_INCLUDE_DIR cupti_pcsampling.h HINTS ${toolkits} PATH_SUFFIXES include extras/CUPTI/include)
    # cupti.h includes it; it may lie in another folder.
    find_path(ORCHARD_CUDA_INCLUDE_DIR cuda.h HINTS ${toolkits} PATH_SUFFIXES include)
    find_library(ORCHARD_CUPTI_LIBRARY cupti HINTS ${toolkits} PATH_SUFFIXES lib64 lib extras/CUPTI/lib64)
    mark_as_advanced(ORCHARD_CUPTI_INCLUDE_DIR ORCHARD_CUDA_INCLUDE_DIR ORCHARD_CUPTI_LIBRARY)
    if(ORCHARD_CUPTI_INCLUDE_DIR AND ORCHARD_CUDA_INCLUDE_DIR)
        set(ORCHARD_HAS_CUPTI ON)
        if(ORCHARD_CUPTI_LIBRARY) # where it is looked for first, if it is there when a program is profiled
            cmake_path(GET ORCHARD_CUPTI_LIBRARY PARENT_PATH orchard_cupti_folder)
        endif()
    elseif(ORCHARD_CUPTI STREQUAL "ON")
        message(FATAL_ERROR "Orchard: ORCHARD_CUPTI is ON, and cupti.h and cuda.h were not found; install the CUDA toolkit "
                            "with CUPTI, or set CUDA_HOME")
    else()
        message(STATUS "Orchard: CUPTI was not found: orchard profile only says so")
    endif()
endif()

set(recorder_sources "${CMAKE_CURRENT_SOURCE_DIR}/profiling/profile/record_writer.cpp"
                     "${CMAKE_CURRENT_SOURCE_DIR}/profiling/profile/cubin_symbols.cpp")
orchard_sources(injection_sources profiling/profile/injection)
if(ORCHARD_HAS_CUPTI)
    add_library(orchard_profile SHARED ${injection_sources} ${recorder_sources})
    orchard_target(orchard_profile)
    # Beside the program, where it is looked for.
    set_target_properties(orchard_profile PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}")
    target_include_directories(orchard_profile PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
    target_include_directories(orchard_profile SYSTEM PRIVATE "${ORCHARD_CUPTI_INCLUDE_DIR}"
                                                              "${ORCHARD_CUDA_INCLUDE_DIR}")
    target_compile_definitions(orchard_profile PRIVATE ORCHARD_HAS_CUDA=0)
    # Its names become the whole program's, for heaps to find one of them: none of the C++ library's may be among them.
    set(exports "${CMAKE_CURRENT_BINARY_DIR}/generated/orchard_profile.map")
    file(WRITE "${exports}" "{ global: InitializeInjection; orchard_profile_heap_1; local: *; };\n")
    target_link_options(orchard_profile PRIVATE "LINKER:--version-script=${exports}")
    target_link_libraries(orchard_profile PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)
endif()

# What the command has to know of it.
set_source_files_properties(
    "${CMAKE_CURRENT_SOURCE_DIR}/profiling/profile/run_profiled.cpp"
    PROPERTIES
        COMPILE_DEFINITIONS
        "ORCHARD_HAS_CUPTI=$<BOOL:${ORCHARD_HAS_CUPTI}>;ORCHARD_PROFILE_INSTALLED=\"${orchard_profile_folder}\";ORCHARD_CUPTI_FOLDER=\"${orchard_cupti_folder}\""
        SKIP_UNITY_BUILD_INCLUSION ON)
