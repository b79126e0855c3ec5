# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
#
# Sets orchard_cuda_dialect: the compiler's option for the CUDA sources of a target that links the library, which need
# C++20. The library's feature cxx_std_20 is for C++ alone, and a feature for CUDA would be an error in a project
# without that language. A target that asks for C++20 or later has the option already, unless CMake does not know it, as
# 3.25 with nvcc.

set(orchard_cuda_dialect "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>")
if(CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(orchard_has_cuda20 "$<VERSION_GREATER_EQUAL:$<TARGET_PROPERTY:CUDA_STANDARD>,20>")
    set(orchard_cuda_dialect "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<NOT:${orchard_has_cuda20}>>:-std=c++20>")
endif()
