# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
#
# Fuzz targets: tests/fuzz/<name>.cpp or .cu -> fuzz_<name>. With ORCHARD_FUZZ (preset `fuzz`, clang) libFuzzer drives
# them; in every other build tests/fuzz/main.cpp does, and CTest runs their corpus and some mutations (docs/reliability.md).

add_custom_target(orchard_fuzz)

# The mutations of each target in an ordinary run: about a second in release.
set(fuzz_runs_graph 1500)
set(fuzz_runs_heap 100)
set(fuzz_runs_options 1500)
set(fuzz_runs_trace 10000)

file(GLOB fuzz_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/tests/fuzz/*.cpp"
     "${CMAKE_CURRENT_SOURCE_DIR}/tests/fuzz/*.cu")
list(FILTER fuzz_sources EXCLUDE REGEX "/main\\.cpp$")
if(ORCHARD_SANITIZE STREQUAL "thread")
    list(FILTER fuzz_sources INCLUDE REGEX "/heap\\.cu$") # the others have one thread
endif()
foreach(source IN LISTS fuzz_sources)
    cmake_path(GET source STEM target)
    set(name fuzz_${target})
    set(sources ${source})
    if(target STREQUAL "graph")
        orchard_sources(of_graphs examples/graph)
        list(APPEND sources ${of_graphs})
    elseif(target STREQUAL "heap")
        list(APPEND sources "${CMAKE_CURRENT_SOURCE_DIR}/tests/properties/perform.cu")
    endif()
    if(NOT ORCHARD_FUZZ)
        list(APPEND sources "${CMAKE_CURRENT_SOURCE_DIR}/tests/fuzz/main.cpp")
    endif()
    if(NOT ORCHARD_HAS_CUDA)
        set(kernels ${sources})
        list(FILTER kernels INCLUDE REGEX "\\.cu$")
        set_source_files_properties(${kernels} PROPERTIES LANGUAGE CXX)
    endif()
    add_executable(${name} ${sources})
    orchard_target(${name})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/tests")
    target_link_libraries(${name} PRIVATE orchard_library orchard_uvm_model CLI11::CLI11 ZLIB::ZLIB)
    add_dependencies(orchard_fuzz ${name})
    if(ORCHARD_FUZZ)
        target_link_options(${name} PRIVATE -fsanitize=fuzzer)
        continue()
    endif()
    add_test(
        NAME fuzz.${target}
        COMMAND ${launch} $<TARGET_FILE:${name}> --runs ${fuzz_runs_${target}} --seed 1
                "${CMAKE_CURRENT_SOURCE_DIR}/tests/fuzz/corpus/${target}"
        WORKING_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/tests")
    set_tests_properties(fuzz.${target} PROPERTIES TIMEOUT ${ORCHARD_TEST_TIMEOUT_S} ENVIRONMENT "${environment}")
    if(TARGET orchard_tests)
        add_dependencies(orchard_tests ${name})
    endif()
endforeach()
