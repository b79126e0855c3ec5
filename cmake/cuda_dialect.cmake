# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
#
# Sets orchard_cuda_dialect: the compiler's option for the CUDA sources of a target that links the library, which need
# C++20. The library's feature cxx_std_20 is for C++ alone, and a feature for CUDA would be an error in a project
# without that language. A target that asks for C++20 or later has the option already. CMake before 3.26 does not know
# the option of nvcc, and writes that of the target's own standard behind it: such a target must not ask for an older
# standard with CUDA_EXTENSIONS off.

set(orchard_cuda_dialect "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>")
if(CMAKE_VERSION VERSION_GREATER_EQUAL 3.26)
    set(orchard_has_cuda20 "$<VERSION_GREATER_EQUAL:$<TARGET_PROPERTY:CUDA_STANDARD>,20>")
    set(orchard_cuda_dialect "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<NOT:${orchard_has_cuda20}>>:-std=c++20>")
endif()
