# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
#
# Finds the CUDA toolkit. Sets ORCHARD_HAS_CUDA. Lines that begin with "Orchard:" are shown by the launcher.

set(ORCHARD_CUDA_MINIMUM 12.4)
set(ORCHARD_HAS_CUDA OFF)

# Sets `result` to whether this machine has an NVIDIA GPU with a driver that answers.
function(orchard_find_gpu result)
    set(${result} OFF PARENT_SCOPE)
    if(EXISTS /dev/nvidiactl)
        set(${result} ON PARENT_SCOPE)
        return()
    endif()
    find_program(ORCHARD_NVIDIA_SMI nvidia-smi)
    mark_as_advanced(ORCHARD_NVIDIA_SMI)
    if(ORCHARD_NVIDIA_SMI)
        execute_process(COMMAND "${ORCHARD_NVIDIA_SMI}" -L RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET TIMEOUT 20)
        if(failed EQUAL 0)
            set(${result} ON PARENT_SCOPE)
        endif()
    endif()
endfunction()

# Sets `path` and `version` of nvcc; `path` is false where there is none.
function(orchard_find_nvcc path version)
    find_program(ORCHARD_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_HOME ENV CUDA_PATH PATH_SUFFIXES bin
                 PATHS /usr/local/cuda/bin)
    mark_as_advanced(ORCHARD_NVCC)
    set(${path} "${ORCHARD_NVCC}" PARENT_SCOPE)
    set(${version} 0 PARENT_SCOPE)
    if(ORCHARD_NVCC)
        execute_process(COMMAND "${ORCHARD_NVCC}" --version OUTPUT_VARIABLE text ERROR_QUIET)
        if(text MATCHES "release [0-9.]+, V([0-9]+\\.[0-9]+)")
            set(${version} "${CMAKE_MATCH_1}" PARENT_SCOPE)
        endif()
    endif()
endfunction()

# Sets `problem` to why the CUDA side cannot be built, or to nothing.
function(orchard_check_cuda problem)
    orchard_find_nvcc(nvcc version)
    if(NOT nvcc)
        set(text "no CUDA toolkit (nvcc) was found; install CUDA ${ORCHARD_CUDA_MINIMUM} or later, or set CUDA_HOME")
    elseif(version VERSION_LESS ORCHARD_CUDA_MINIMUM)
        set(text "CUDA ${version} (${nvcc}) is older than ${ORCHARD_CUDA_MINIMUM}; install a later toolkit")
    else()
        if(NOT DEFINED CMAKE_CUDA_COMPILER)
            set(CMAKE_CUDA_COMPILER "${nvcc}" CACHE FILEPATH "nvcc")
        endif()
        include(CheckLanguage)
        check_language(CUDA)
        if(NOT CMAKE_CUDA_COMPILER)
            set(text "CUDA ${version} (${nvcc}) does not work with this host compiler "
                     "(${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}); set CUDAHOSTCXX to one that it supports")
            string(CONCAT text ${text})
        endif()
    endif()
    set(${problem} "${text}" PARENT_SCOPE)
endfunction()

if(ORCHARD_SANITIZE AND ORCHARD_CUDA STREQUAL "ON")
    message(FATAL_ERROR "ORCHARD_SANITIZE=${ORCHARD_SANITIZE} checks the emulated device; build it with ORCHARD_CUDA=OFF")
endif()

if(ORCHARD_CUDA STREQUAL "OFF" OR ORCHARD_SANITIZE)
    message(STATUS "Orchard: the emulated device alone (ORCHARD_CUDA is OFF)")
else()
    set(gpu ON)
    # A project that adds this one may be built here and run elsewhere: a toolkit is enough.
    if(ORCHARD_CUDA STREQUAL "AUTO" AND PROJECT_IS_TOP_LEVEL)
        orchard_find_gpu(gpu)
    endif()
    if(NOT gpu)
        message(STATUS "Orchard: no NVIDIA GPU here: the emulated device alone (the preset cuda builds the CUDA side)")
    else()
        orchard_check_cuda(problem)
        if(NOT problem)
            set(ORCHARD_HAS_CUDA ON)
        elseif(ORCHARD_CUDA STREQUAL "ON")
            message(FATAL_ERROR "Orchard: ${problem}. Or build the emulated device alone: preset release.")
        else()
            message(STATUS "Orchard: ${problem}. Building the emulated device alone.")
        endif()
    endif()
endif()

if(ORCHARD_HAS_CUDA)
    foreach(architecture IN LISTS ORCHARD_CUDA_ARCHITECTURES)
        if(architecture MATCHES "^([0-9]+)" AND CMAKE_MATCH_1 LESS 80)
            message(FATAL_ERROR "Orchard: the CUDA architecture ${architecture} is too old; compile for 80 or later: "
                                "set CMAKE_CUDA_ARCHITECTURES, or ORCHARD_CUDA_ARCHITECTURES for Orchard alone")
        endif()
    endforeach()
    # The architectures before the language is enabled, which would choose its own; the dialect after, because CMake
    # tests the compiler with it before it knows the compiler's flags.
    set(CMAKE_CUDA_ARCHITECTURES "${ORCHARD_CUDA_ARCHITECTURES}")
    enable_language(CUDA)
    set(orchard_cuda_dialect "") # for the sources of projects that add this one as a subdirectory
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION) # CMake 3.25 does not know that nvcc compiles C++20
        set(orchard_cuda_dialect "-std=c++20")
        set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
        set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_EXTENSIONS OFF)
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    find_package(CUDAToolkit ${ORCHARD_CUDA_MINIMUM} REQUIRED)
    message(STATUS "Orchard: CUDA ${CMAKE_CUDA_COMPILER_VERSION}, architectures ${ORCHARD_CUDA_ARCHITECTURES}")
endif()
