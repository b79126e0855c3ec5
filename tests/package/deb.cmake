# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
#
# Makes the Debian package of BINARY_DIR, unpacks it into an empty folder, runs the program from there, and builds and
# runs the project in CONSUMER_DIR against it. CUDA_COMPILER: of a build with the CUDA side, where its package finds the
# toolkit.

set(work "${BINARY_DIR}/package-check-deb")
file(REMOVE_RECURSE "${work}")
file(MAKE_DIRECTORY "${work}")

include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")

run("cpack" "${CPACK}" -G DEB --config "${BINARY_DIR}/CPackConfig.cmake" -B "${work}")
file(GLOB package "${work}/orchard_*.deb")
run("list of files" dpkg-deb -c "${package}")
foreach(file bin/orchard lib/liborchard.a include/orchard/heap.hpp lib/cmake/orchard/orchardConfig.cmake
             share/man/man1/orchard.1 share/bash-completion/completions/orchard share/zsh/site-functions/_orchard
             share/doc/orchard/README.md share/doc/orchard/docs/programs.md share/doc/orchard/CHANGELOG.md)
    if(NOT output MATCHES "root/root [^\n]* \\./usr/${file}\n")
        message(FATAL_ERROR "the package lacks usr/${file}:\n${output}")
    endif()
endforeach()
run("dependencies" dpkg-deb -f "${package}" Depends)
if(NOT output MATCHES "libc6 \\(" OR NOT output MATCHES "libabsl-dev \\(" OR NOT output MATCHES "libboost-context-dev")
    message(FATAL_ERROR "the package depends on: ${output}")
endif()

run("unpack" dpkg-deb -x "${package}" "${work}/root")
set(program "${work}/root/usr/bin/orchard")
run("program" "${program}" info --json)
run("data" "${program}" demo --device emulated --walkers 10)
set(cuda "")
if(CUDA_COMPILER)
    set(cuda "-DCUDAToolkit_NVCC_EXECUTABLE=${CUDA_COMPILER}")
endif()
run("configure" "${CMAKE_COMMAND}" -S "${CONSUMER_DIR}" -B "${work}/build" -G "${GENERATOR}" -DLANGUAGES=CXX
    "-DCMAKE_PREFIX_PATH=${work}/root/usr" "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" ${cuda})
run("build" "${CMAKE_COMMAND}" --build "${work}/build")
run("consumer" "${work}/build/consumer")
