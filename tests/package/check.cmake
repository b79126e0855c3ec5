# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
#
# Installs BINARY_DIR into a fresh prefix, builds the project in CONSUMER_DIR against it and runs the result. Where
# there is a CUDA_COMPILER, also builds a project of CUDA alone, which asks for C++17 and gets what the library needs;
# the test package.cuda_consumer runs that one. Then takes Orchard as a subdirectory of the project: configures it, and
# builds a CUDA program with it where that is possible. The prefix is moved between the installation and its use:
# nothing that is installed may name the place where it was installed to. Programs are compiled with warnings as errors,
# also those of Orchard's headers.

set(work "${BINARY_DIR}/package-check")
file(REMOVE_RECURSE "${work}")
file(MAKE_DIRECTORY "${work}")

include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")

run("install" "${CMAKE_COMMAND}" --install "${BINARY_DIR}" --prefix "${work}/staging")
file(RENAME "${work}/staging" "${work}/prefix")

include("${CMAKE_CURRENT_LIST_DIR}/check_installed.cmake")

set(cuda "")
if(CUDA_COMPILER)
    set(cuda "-DCUDAToolkit_NVCC_EXECUTABLE=${CUDA_COMPILER}" "-DCMAKE_CUDA_COMPILER=${CUDA_COMPILER}"
        "-DCMAKE_CUDA_HOST_COMPILER=${CXX_COMPILER}" "-DCMAKE_CUDA_ARCHITECTURES=${CUDA_ARCHITECTURES}")
endif()
function(configure languages folder)
    run("configure ${folder}"
        "${CMAKE_COMMAND}" -S "${CONSUMER_DIR}" -B "${work}/${folder}" -G "${GENERATOR}" "-DLANGUAGES=${languages}"
        "-DCMAKE_PREFIX_PATH=${work}/prefix" "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" "-DCMAKE_CXX_FLAGS=${CXX_FLAGS}"
        ${cuda} ${ARGN})
endfunction()
# By default, CMake passes the package's headers as those of the system, for which the compiler prints no warnings.
set(strict -DCMAKE_NO_SYSTEM_FROM_IMPORTED=ON "-DCMAKE_CXX_FLAGS=${CXX_FLAGS} -Wall -Wextra -Werror"
    "-DCMAKE_CUDA_FLAGS=-Xcompiler=-Wall,-Wextra,-Werror -Werror=all-warnings")
configure(CXX build ${strict})
run("build" "${CMAKE_COMMAND}" --build "${work}/build")
# Like a project of CUDA alone: the package must enable the language in which it looks for threads. The project asks for
# a version.
configure(NONE build-none "-DVERSION_WANTED=${installed_version}")
run("build where the project enabled no language" "${CMAKE_COMMAND}" --build "${work}/build-none")
# Another minor version may differ in everything, as long as the major one is 0.
execute_process(
    COMMAND "${CMAKE_COMMAND}" -S "${CONSUMER_DIR}" -B "${work}/build-version" -G "${GENERATOR}" -DLANGUAGES=NONE
            "-DCMAKE_PREFIX_PATH=${work}/prefix" -DVERSION_WANTED=0.0
    RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(failed EQUAL 0 OR NOT output MATCHES "compatible")
    message(FATAL_ERROR "version 0.0 is not refused by a package of ${installed_version}:\n${output}")
endif()
message(STATUS "another version: refused")
if(CUDA_COMPILER)
    configure(CUDA build-cuda -DCMAKE_CUDA_STANDARD=17 ${strict})
    run("build of CUDA programs" "${CMAKE_COMMAND}" --build "${work}/build-cuda")
    # A project in C++20. CMake before 3.26 does not know nvcc's option for it.
    if(CMAKE_VERSION VERSION_LESS 3.26)
        list(TRANSFORM strict REPLACE "^(-DCMAKE_CUDA_FLAGS=)" "\\1-std=c++20 ")
    endif()
    configure(CUDA build-cuda20 -DCMAKE_CUDA_STANDARD=20 ${strict})
    run("build of CUDA programs in C++20" "${CMAKE_COMMAND}" --build "${work}/build-cuda20"
        --target c_device_ON consumer)
    # Callers of the replaced malloc expect that registers from R32 on keep their values (replaced_functions.cu). A kernel that
    # inlines both hit paths of `heap_ref` needs 45.
    foreach(limit replaced:32:1216 heap_ref:48:1136)
        string(REGEX MATCH "(.*):(.*):(.*)" ignored "${limit}")
        set(way "${CMAKE_MATCH_1}")
        set(most_registers "${CMAKE_MATCH_2}")
        set(most_stack "${CMAKE_MATCH_3}")
        if(CUDA_FLAGS MATCHES "Ofast-compile|Xptxas=-O")
            set(most_stack 2048) # the library was compiled with little optimization
        endif()
        execute_process(COMMAND "${CMAKE_COMMAND}" --build "${work}/build-cuda" --target probe_${way}
                        RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
        string(REGEX MATCH "used ([0-9]+) registers, (used [0-9]+ barriers, )?([0-9]+) stack" used "${output}")
        if(NOT failed EQUAL 0 OR NOT used OR CMAKE_MATCH_1 GREATER most_registers OR CMAKE_MATCH_3 GREATER most_stack)
            message(FATAL_ERROR "malloc and free (${way}) have more than ${most_registers} registers or ${most_stack} B of "
                                "stack, or are not linked:\n${output}")
        endif()
        message(STATUS "malloc and free (${way}): ${CMAKE_MATCH_1} registers, ${CMAKE_MATCH_3} B of stack")
    endforeach()
    # For an architecture that the package has no code for, no program is linked: it would use CUDA's heap.
    if(NOT CUDA_ARCHITECTURES MATCHES "89|all|native")
        configure(CUDA build-other -DCMAKE_CUDA_ARCHITECTURES=89)
        execute_process(COMMAND "${CMAKE_COMMAND}" --build "${work}/build-other" --target unchanged
                        RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
        if(NOT output MATCHES "Undefined reference to 'orchard_replaced_malloc'")
            message(FATAL_ERROR "a program for another architecture was linked, or failed otherwise:\n${output}")
        endif()
        message(STATUS "link for another architecture: refused")
    endif()
endif()
cmake_path(SET source NORMALIZE "${CONSUMER_DIR}/../..")
if(CUDA_COMPILER)
    # The escaped semicolon keeps the list one argument.
    configure("CXX\\;CUDA" build-subdirectory "-DORCHARD_SOURCE=${source}")
    run("build with Orchard as a subdirectory" "${CMAKE_COMMAND}" --build "${work}/build-subdirectory")
    # The project's architecture is none of Orchard's default list. CMakeLists.txt checks that Orchard takes it.
    configure("CXX\\;CUDA" build-architectures "-DORCHARD_SOURCE=${source}" -DCMAKE_CUDA_ARCHITECTURES=86)
else()
    configure(CXX build-subdirectory "-DORCHARD_SOURCE=${source}" -DORCHARD_CUDA=OFF)
endif()
# A project in C, which sees one header and links the shared library.
configure(C build-c "-DCMAKE_C_FLAGS=${CXX_FLAGS} -std=c99 -Wall -Wextra -pedantic -Werror")
run("build of a C program" "${CMAKE_COMMAND}" --build "${work}/build-c")
run("run" "${work}/build/consumer")
run("run the C program" "${work}/build-c/consumer")
run("installed program" "${work}/prefix/bin/orchard" --help)
# The installed manual page and completions are this program's.
foreach(pair man:man/man1/orchard.1 bash:bash-completion/completions/orchard zsh:zsh/site-functions/_orchard)
    string(REGEX MATCH "(.*):(.*)" ignored "${pair}")
    set(installed "${work}/prefix/share/${CMAKE_MATCH_2}")
    run("the program's ${CMAKE_MATCH_1}" "${work}/prefix/bin/orchard" generate ${CMAKE_MATCH_1} "${work}/generated")
    run("${installed} is up to date" "${CMAKE_COMMAND}" -E compare_files "${installed}" "${work}/generated")
endforeach()
