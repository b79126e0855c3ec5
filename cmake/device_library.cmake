# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
#
# What programs link that call orchard/orchard.h, or change nothing at all:
#
#   orchard::device           what sources with separable compilation call: the device functions of orchard/orchard.h
#                             (C++11 and later), and the slow paths of `heap_ref` (C++17 and later); orchard::orchard
#                             brings it along
#   orchard::launch_hooks     the default heap is made before the first kernel; for sources that include
#                             orchard/replace_malloc.cuh
#   orchard::replace_malloc   the same, and `malloc`, `free`, `new` and `delete` of all kernels become Orchard's
#   orchard::shared           liborchard.so: the host's functions of orchard/orchard.h for C, and for other languages
#
# With CUDA also orchard_device.ptx, .ltoir and .fatbin: the device functions for programs that compile kernels while they
# run, from the same source.

set(device_library_dir "${CMAKE_CURRENT_SOURCE_DIR}/runtime/device_library")
set(orchard_includes
    "$<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/runtime/include>"
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
# The same, and where the headers for kernels find what they include.
set(orchard_device_includes
    ${orchard_includes} "$<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}>"
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/orchard/detail-root>")
# Device code of Orchard may be in a program and in a shared library that the program is linked with. The names that
# nvcc and the device linker make for it are the same in both, and the library would use the program's objects.
set(orchard_own_names
    "$<HOST_LINK:$<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,SHARED_LIBRARY>:LINKER:-Bsymbolic-functions>>")
set(orchard_exported "")

if(ORCHARD_HAS_CUDA)
    # --- the device functions ---
    add_library(orchard_device STATIC "${device_library_dir}/device_library.cu" "${device_library_dir}/slow_paths.cu")
    set_target_properties(orchard_device PROPERTIES EXPORT_NAME device OUTPUT_NAME orchard_device
                                                    CUDA_SEPARABLE_COMPILATION ON POSITION_INDEPENDENT_CODE ON)
    # PTX of the oldest architecture, too: the device linker compiles it for a program of any other architecture. Words in
    # place of numbers (native, all) stand alone.
    set(device_architectures "${ORCHARD_CUDA_ARCHITECTURES}")
    if(device_architectures MATCHES "^[0-9]")
        list(APPEND device_architectures 80-virtual)
    endif()
    set_target_properties(orchard_device PROPERTIES CUDA_ARCHITECTURES "${device_architectures}")
    orchard_target(orchard_device)
    # A kernel has the registers of its deepest call. For orchard_malloc and its like, these are 75 without a limit, and
    # nothing is faster. With 32, a kernel that inlines the hit path of `heap_ref` has no more registers than that path
    # needs, and is as fast as one that has all in its own source: docs/replace_malloc.md has the figures.
    set_source_files_properties("${device_library_dir}/device_library.cu" PROPERTIES COMPILE_OPTIONS -maxrregcount=56)
    set_source_files_properties("${device_library_dir}/slow_paths.cu" PROPERTIES COMPILE_OPTIONS -maxrregcount=32)
    target_include_directories(orchard_device PUBLIC ${orchard_device_includes})
    target_compile_definitions(orchard_device PUBLIC $<$<CONFIG:Checked>:ORCHARD_CHECKED=1>
                               PRIVATE ORCHARD_HAS_CUDA=1)
    # What users compile needs no C++20 and no header of Abseil: only the linker needs the library.
    target_link_options(orchard_device INTERFACE "${orchard_own_names}")
    target_link_libraries(orchard_device INTERFACE "$<LINK_ONLY:orchard_library>")
    target_link_libraries(orchard_library INTERFACE orchard_device)

    # --- the replacement ---
    # The device functions malloc and free stay PTX, which the device linker compiles for the program's architecture, and
    # so are part of each program. If the archive has no machine code of that architecture for what they call, they miss
    # it, which is an error. Otherwise the device linker would pass over the archive without a word, and leave malloc to
    # the driver. CMake has no language for PTX.
    set(glue "${CMAKE_CURRENT_BINARY_DIR}/replace_malloc.o")
    add_custom_command(
        OUTPUT "${glue}"
        COMMAND "${CMAKE_CUDA_COMPILER}" -gencode arch=compute_80,code=compute_80 -Xcompiler -fPIC,-fvisibility=hidden -dc
                "${device_library_dir}/replace_malloc.ptx" -o replace_malloc.o
        DEPENDS "${device_library_dir}/replace_malloc.ptx"
        # A relative name: nvcc makes names of it, which programs contain.
        WORKING_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}"
        COMMENT "Building the device functions malloc and free"
        VERBATIM)
    add_library(orchard_replace STATIC "${device_library_dir}/replaced_functions.cu" "${glue}")
    set_source_files_properties("${glue}" PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
    # Machine code alone: the device linker would compile PTX without the limit of registers.
    list(TRANSFORM ORCHARD_CUDA_ARCHITECTURES REPLACE "^([0-9]+[af]?)$" "\\1-real" OUTPUT_VARIABLE machine_code)
    set_target_properties(
        orchard_replace PROPERTIES OUTPUT_NAME orchard_replace_malloc CUDA_SEPARABLE_COMPILATION ON
                                   CUDA_ARCHITECTURES "${machine_code}" POSITION_INDEPENDENT_CODE ON)
    orchard_target(orchard_replace)
    # Not for speed: replaced_functions.cu says what depends on it.
    target_compile_options(orchard_replace PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-maxrregcount=32>")
    target_include_directories(orchard_replace PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}"
                                                       "${CMAKE_CURRENT_SOURCE_DIR}/runtime/include")
    target_compile_definitions(orchard_replace PRIVATE ORCHARD_HAS_CUDA=1 ORCHARD_SLOW_PATHS_INLINE=1)
    target_link_libraries(orchard_replace INTERFACE "$<LINK_ONLY:orchard_library>")

    add_library(orchard_launch_hooks STATIC "${device_library_dir}/launch_hooks.cpp")
    set_target_properties(orchard_launch_hooks PROPERTIES EXPORT_NAME launch_hooks POSITION_INDEPENDENT_CODE ON)
    orchard_target(orchard_launch_hooks)
    target_include_directories(orchard_launch_hooks INTERFACE ${orchard_device_includes})
    target_link_libraries(orchard_launch_hooks PRIVATE orchard_library)
    # The launches that come to launch_hooks.cpp.
    set(launches cudaLaunchKernel cudaLaunchCooperativeKernel cudaLaunchKernelExC cudaGraphLaunch)
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
        list(APPEND launches __cudaLaunchKernel)
    endif()
    foreach(launch IN LISTS launches)
        target_link_options(orchard_launch_hooks INTERFACE "$<HOST_LINK:LINKER:--wrap=${launch}>"
                            "$<HOST_LINK:LINKER:--wrap=${launch}_ptsz>")
    endforeach()
    target_link_options(orchard_launch_hooks INTERFACE "$<HOST_LINK:LINKER:--wrap=cudaDeviceReset>"
                        "${orchard_own_names}")

    add_library(orchard_replace_malloc INTERFACE)
    set_target_properties(orchard_replace_malloc PROPERTIES EXPORT_NAME replace_malloc)
    target_link_libraries(orchard_replace_malloc INTERFACE "$<LINK_ONLY:orchard_replace>" orchard_launch_hooks)

    add_library(orchard::device ALIAS orchard_device)
    add_library(orchard::launch_hooks ALIAS orchard_launch_hooks)
    add_library(orchard::replace_malloc ALIAS orchard_replace_malloc)
    list(APPEND orchard_exported orchard_device orchard_launch_hooks orchard_replace orchard_replace_malloc)

    # --- for programs that compile kernels while they run ---
    set(generate "")
    foreach(architecture IN LISTS ORCHARD_CUDA_ARCHITECTURES)
        string(REGEX MATCH "^[0-9]+[af]?" number "${architecture}")
        if(architecture MATCHES "-real$")
            list(APPEND generate -gencode "arch=compute_${number},code=sm_${number}")
        elseif(architecture MATCHES "-virtual$")
            list(APPEND generate -gencode "arch=compute_${number},code=compute_${number}")
        elseif(number)
            list(APPEND generate -gencode "arch=compute_${number},code=[sm_${number},compute_${number}]")
        else() # native, all, all-major
            list(APPEND generate "-arch=${architecture}")
        endif()
    endforeach()
    set(artifacts "")
    foreach(kind ptx ltoir fatbin)
        set(artifact "${CMAKE_CURRENT_BINARY_DIR}/orchard_device.${kind}")
        if(kind STREQUAL "ptx")
            set(how -ptx -arch=compute_80)
        elseif(kind STREQUAL "ltoir")
            set(how -ltoir -gencode=arch=compute_80,code=lto_80 -maxrregcount=56)
        else()
            set(how -fatbin ${generate} -maxrregcount=56)
        endif()
        add_custom_command(
            OUTPUT "${artifact}"
            COMMAND "${CMAKE_CUDA_COMPILER}" ${how} -rdc=true -std=c++20 -O3 -DORCHARD_DEVICE_ONLY=1 -DORCHARD_HAS_CUDA=1
                    -DORCHARD_SLOW_PATHS_INLINE=1 "-I${CMAKE_CURRENT_SOURCE_DIR}"
                    "-I${CMAKE_CURRENT_SOURCE_DIR}/runtime/include" -MD -MF "${artifact}.d" -MT "${artifact}" "${device_library_dir}/device_library.cu" -o "${artifact}"
            DEPENDS "${device_library_dir}/device_library.cu"
            DEPFILE "${artifact}.d"
            COMMENT "Building orchard_device.${kind}"
            VERBATIM)
        list(APPEND artifacts "${artifact}")
    endforeach()
    if(ORCHARD_INSTALL)
        set(in_all ALL)
    endif()
    add_custom_target(orchard_device_artifacts ${in_all} DEPENDS ${artifacts})
    if(ORCHARD_INSTALL)
        install(FILES ${artifacts} DESTINATION "${CMAKE_INSTALL_DATADIR}/orchard" OPTIONAL)
    endif()
endif()

# Links archives of this project, each before those that it needs, into a shared library. Their names are hidden in it.
function(orchard_link_into_shared name) # <archive>...
    target_link_options(${name} PRIVATE "LINKER:--exclude-libs,ALL" "LINKER:--as-needed")
    get_property(shared_abseil GLOBAL PROPERTY orchard_replaced_libraries)
    if(NOT shared_abseil)
        target_link_libraries(${name} PRIVATE ${ARGN})
        return()
    endif()
    # Debian's archives of Abseil are not position independent, and the targets stand for these archives here. Its shared
    # libraries use the system's C++ library. So does this one, then: with a second one in it, memory would be allocated by
    # the `operator new` of one and freed by the other.
    get_target_property(options ${name} LINK_OPTIONS)
    list(REMOVE_ITEM options -static-libstdc++ -static-libgcc)
    set_target_properties(${name} PROPERTIES LINK_OPTIONS "${options}")
    target_compile_features(${name} PRIVATE cxx_std_20)
    target_include_directories(${name} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
    target_compile_definitions(${name} PRIVATE ORCHARD_HAS_CUDA=$<BOOL:${ORCHARD_HAS_CUDA}>)
    add_dependencies(${name} ${ARGN})
    foreach(archive IN LISTS ARGN)
        set_property(TARGET ${name} APPEND PROPERTY LINK_DEPENDS "$<TARGET_FILE:${archive}>")
        target_link_libraries(${name} PRIVATE "$<TARGET_FILE:${archive}>")
    endforeach()
    target_link_libraries(
        ${name} PRIVATE ${shared_abseil} Boost::context Threads::Threads
                        $<$<BOOL:${ORCHARD_HAS_CUDA}>:CUDA::cudart_static>)
endfunction()

# --- for C, and for other languages ---
# Of the library's names only those of orchard/orchard.h are visible.
add_library(orchard_shared SHARED runtime/c_api/c_api.cpp)
set_target_properties(orchard_shared PROPERTIES EXPORT_NAME shared OUTPUT_NAME orchard VERSION "${PROJECT_VERSION}"
                                                SOVERSION "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
orchard_target(orchard_shared)
target_compile_definitions(orchard_shared PRIVATE ORCHARD_SHARED_BUILD=1)
target_include_directories(orchard_shared PUBLIC ${orchard_includes})
target_link_options(orchard_shared PRIVATE "LINKER:-z,defs")
orchard_link_into_shared(orchard_shared orchard_library)
add_library(orchard::shared ALIAS orchard_shared)
list(APPEND orchard_exported orchard_shared)

if(NOT ORCHARD_INSTALL)
    # Compiled where a target of the project that adds this one links them.
    set(compiled ${orchard_exported})
    list(REMOVE_ITEM compiled orchard_replace_malloc) # an interface
    set_target_properties(${compiled} PROPERTIES EXCLUDE_FROM_ALL ON)
endif()
