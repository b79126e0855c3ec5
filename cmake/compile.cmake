# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
#
# How every target is compiled and linked.

set(ORCHARD_WARNINGS -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion)
if(ORCHARD_WERROR)
    list(APPEND ORCHARD_WARNINGS -Werror)
endif()
# nvcc hands the host compiler a source that it has rewritten, where conversion warnings name no line of ours.
set(ORCHARD_CUDA_HOST_WARNINGS -Wall -Wextra -Wno-unused-parameter)

# Sets `result` to all *.cpp and *.cu under the folders given, sorted. Where there is no CUDA, *.cu is plain C++.
function(orchard_sources result)
    set(sources "")
    foreach(folder IN LISTS ARGN)
        file(GLOB_RECURSE found CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp"
             "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cu")
        list(APPEND sources ${found})
    endforeach()
    set(kernels ${sources})
    list(FILTER kernels INCLUDE REGEX "\\.cu$")
    if(kernels AND NOT ORCHARD_HAS_CUDA)
        set_source_files_properties(${kernels} PROPERTIES LANGUAGE CXX)
    endif()
    set(${result} "${sources}" PARENT_SCOPE)
endfunction()

# Warnings, sanitizers and link options of a target of this project.
function(orchard_target name)
    target_compile_options(
        ${name}
        PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${ORCHARD_WARNINGS}>"
                "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=$<JOIN:${ORCHARD_CUDA_HOST_WARNINGS},$<COMMA>>>")
    if(ORCHARD_WERROR)
        target_compile_options(${name} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>")
    endif()
endfunction()

# What nearly every source of a target includes is parsed once for all of them. Sources still include what they need:
# .ci/nightly builds without (CMAKE_DISABLE_PRECOMPILE_HEADERS), and would not compile otherwise.
function(orchard_precompile name)
    list(TRANSFORM ARGN PREPEND "$<$<COMPILE_LANGUAGE:CXX>:" OUTPUT_VARIABLE headers)
    list(TRANSFORM headers APPEND ">")
    target_precompile_headers(${name} PRIVATE ${headers})
endfunction()

# Compiles the sources of a target by groups in the same folder: those of C++ by five, which takes half the processor
# time, those of CUDA by four, which takes a third. The headers are parsed once for a group, and the templates that its
# sources have in common are compiled once. Names in their unnamed namespaces must differ. The compiler says where two of
# them do not; rename one of them. .ci/nightly compiles each source alone (ORCHARD_UNITE=OFF).
function(orchard_unite name)
    if(NOT ORCHARD_UNITE)
        return()
    endif()
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    get_target_property(sources ${name} SOURCES)
    set(folders "")
    set(kernel_folders "")
    foreach(source IN LISTS sources)
        cmake_path(GET source PARENT_PATH folder)
        string(REPLACE "${CMAKE_CURRENT_SOURCE_DIR}/" "" folder "${folder}")
        string(MAKE_C_IDENTIFIER "${folder}" key)
        if(ORCHARD_HAS_CUDA AND source MATCHES "\\.cu$")
            get_source_file_property(alone "${source}" SKIP_UNITY_BUILD_INCLUSION)
            if(NOT alone)
                if(NOT key IN_LIST kernel_folders)
                    list(APPEND kernel_folders "${key}")
                    set(kernels_${key} "")
                endif()
                list(APPEND kernels_${key} "${source}")
            endif()
            continue()
        endif()
        list(APPEND folders "${key}")
        set(before ${folders})
        list(FILTER before INCLUDE REGEX "^${key}$")
        list(LENGTH before count)
        math(EXPR group "(${count} - 1) / 5")
        set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${key}_${group}")
    endforeach()
    foreach(key IN LISTS kernel_folders)
        orchard_unite_kernels(${name} ${key} ${kernels_${key}})
    endforeach()
endfunction()

# Replaces sources of CUDA in a target by files that include four of them each. CMake's own unity builds do so from
# version 3.31 on.
function(orchard_unite_kernels name key)
    set(kernels ${ARGN})
    list(LENGTH kernels count)
    if(count EQUAL 1)
        return()
    endif()
    get_target_property(sources ${name} SOURCES)
    list(REMOVE_ITEM sources ${kernels})
    set(group 0)
    while(kernels)
        list(SUBLIST kernels 0 4 some)
        # From the root of the sources, so that a compiler's cache serves several checkouts.
        list(TRANSFORM some REPLACE "^${CMAKE_CURRENT_SOURCE_DIR}/(.+)$" "#include \"\\1\"\n" OUTPUT_VARIABLE lines)
        string(CONCAT lines ${lines})
        set(united "${CMAKE_CURRENT_BINARY_DIR}/united/${name}/${key}_${group}.cu")
        file(CONFIGURE OUTPUT "${united}" CONTENT "${lines}" @ONLY)
        list(APPEND sources "${united}")
        list(REMOVE_ITEM kernels ${some})
        math(EXPR group "${group} + 1")
    endwhile()
    set_property(TARGET ${name} PROPERTY SOURCES ${sources})
endfunction()

# A program and a library that both link Orchard have a copy each, with heaps of its own. Without this, the functions of
# one would be called by the other, whose CUDA runtime does not know its kernels.
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

if(ORCHARD_SANITIZE)
    # Everywhere: an object without would hide what the others do.
    add_compile_options(-fsanitize=${ORCHARD_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${ORCHARD_SANITIZE})
    if(ORCHARD_FUZZ)
        if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
            message(FATAL_ERROR "ORCHARD_FUZZ needs clang, and the compiler is ${CMAKE_CXX_COMPILER}; use preset fuzz")
        endif()
        add_compile_options(-fsanitize=fuzzer-no-link)
        # GCC defines it, clang 14 does not.
        add_compile_definitions(__SANITIZE_ADDRESS__=1)
    endif()
else()
    # The programs run on another machine that has only a C library and a driver.
    add_link_options(-static-libstdc++ -static-libgcc)
endif()
# Places in messages and traces are the same from every checkout, and a cache serves several.
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${CMAKE_CURRENT_SOURCE_DIR}/=>")
add_compile_definitions($<$<CONFIG:Checked>:_GLIBCXX_ASSERTIONS>)
