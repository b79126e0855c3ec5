# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
#
# A part of check.cmake: checks the files in ${work}/prefix. Sets `installed_version` to the major and minor version of
# the package.

file(GLOB_RECURSE version_file "${work}/prefix/orchardConfigVersion.cmake")
file(READ "${version_file}" text)
if(NOT text MATCHES "PACKAGE_VERSION \"([0-9]+\\.[0-9]+)\\.[0-9]+\"")
    message(FATAL_ERROR "the package has no version: ${version_file}")
endif()
set(installed_version "${CMAKE_MATCH_1}")

# The functions of the public header, and no others, are visible in the shared library. A sanitizer may add names.
find_program(NM nm REQUIRED)
find_program(READELF readelf REQUIRED)
file(GLOB_RECURSE library "${work}/prefix/liborchard.so")
file(READ "${work}/prefix/include/orchard/orchard.h" text)
string(REGEX MATCHALL "ORCHARD_API [a-z_ *]+[ *]orchard_[a-z_]+\\(" declarations "${text}")
list(TRANSFORM declarations REPLACE ".*[ *](orchard_[a-z_]+)\\($" "\\1" OUTPUT_VARIABLE declared)
list(SORT declared)
run("names of liborchard.so" "${NM}" -D --defined-only "${library}")
string(REGEX MATCHALL "[^\n]+" lines "${output}")
list(TRANSFORM lines REPLACE ".* ([^ ]+)$" "\\1" OUTPUT_VARIABLE defined)
list(REMOVE_ITEM defined _init _fini _edata _end __bss_start)
list(SORT defined)
if(NOT defined STREQUAL declared AND NOT CXX_FLAGS MATCHES "sanitize")
    message(FATAL_ERROR "liborchard.so has the names '${defined}', and orchard.h declares '${declared}'")
endif()
run("name of liborchard.so" "${READELF}" -d "${library}")
string(REPLACE "." "\\." pattern "${installed_version}")
if(NOT output MATCHES "soname: \\[liborchard\\.so\\.${pattern}\\]")
    message(FATAL_ERROR "the soname of liborchard.so is not liborchard.so.${installed_version}:\n${output}")
endif()

if(CUDA_COMPILER)
    foreach(kind ptx ltoir fatbin)
        set(artifact "${work}/prefix/share/orchard/orchard_device.${kind}")
        if(NOT EXISTS "${artifact}")
            message(FATAL_ERROR "the package lacks ${artifact}")
        endif()
        file(SIZE "${artifact}" bytes)
        if(bytes EQUAL 0)
            message(FATAL_ERROR "${artifact} is empty")
        endif()
    endforeach()
    message(STATUS "device code for programs that compile kernels while they run: installed")
endif()
