# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
#
# tests/<folder>/**.{cpp,cu} -> <folder>_tests, one CTest test for each GoogleTest suite: test_groups.cmake has more.
# tests/explore and tests/mutants stand on other objects than the rest: explore.cmake.
# A test whose name contains "slow" (or "Slow") gets the label `slow`: CI leaves it out under the sanitizers. So do
# tests, there alone, that take long and show a sanitizer nothing that shorter ones do not.
# Instances for the CUDA device (cuda_...) are tests of builds that have its side.

find_package(GTest CONFIG QUIET)
if(NOT GTest_FOUND)
    message(STATUS "Orchard: GoogleTest was not found: the tests are not built")
    return()
endif()
find_package(rapidcheck CONFIG QUIET)
if(NOT rapidcheck_FOUND)
    message(STATUS "Orchard: RapidCheck was not found: the tests with random programs are not built")
endif()

set(ORCHARD_TEST_TIMEOUT_S 120)
if(ORCHARD_SANITIZE)
    # Some take a hundred times as long there, and machines differ.
    set(ORCHARD_TEST_TIMEOUT_S 600)
endif()
set(ORCHARD_SLOW_TEST_TIMEOUT_S 900)
# explore, mutants and arena are none of the many either: see below. The targets of fuzz: fuzz.cmake.
set(not_gtest support package checks explore mutants arena fuzz)
if(NOT rapidcheck_FOUND)
    list(APPEND not_gtest properties)
endif()
# Folders whose files have names in common, or of which GCC 12 warns without cause when several are compiled at a time.
set(apart growth layout options or_tree portion_tree segment_directory walk)
set(slow "*slow*:*Slow*")
if(NOT ORCHARD_HAS_CUDA)
    list(APPEND not_gtest deadlock) # calls that only CUDA has; CI compiles them in its stage build-cuda
endif()
include(malloc_mc)
if(NOT orchard_malloc_mc_includes)
    list(APPEND not_gtest malloc_mc)
endif()
if(NOT ORCHARD_HAS_NVTX)
    list(APPEND not_gtest nvtx)
endif()
if(ORCHARD_SANITIZE)
    list(APPEND not_gtest faults) # its programs define functions that the sanitizers define, too
    # The sources of `contract` once more, under published policies, whose code random_walk and page_policy have, too.
    list(APPEND not_gtest contract_policies)
    string(
        JOIN ":" slow "${slow}"
        # Each page of a heap, of all shapes of heaps; the other suites of the contract come as far in small.
        "*contract_exhaustion.*136_segments*"
        "*contract_exhaustion.*rw*"
        "*contract_churn.*nearly_full*rw*"
        "*contract_nearly_full.*24_segments"
        # Searches on one thread: by orders of a schedule, by models of a structure, by seeds once more.
        "Explored.*"
        "Priorities.*"
        "*or_tree_sequence.*/300000"
        "*portion_tree_sequences.*"
        "*portion_tree_lives.*/2"
        "*portion_tree_lives.*/3"
        "*portion_tree_lives.*/4"
        "*portion_tree_lives.*/5"
        "*EveryClassHome.BeyondTheEnd*"
        "*repeat.seeds_give_the_same*"
        "SegmentCache.ASearchForARunOfSeveral*"
        # Long use, of which the tests of races and of the contract have enough.
        "heap_slabs.*"
        "*/heap_slabs.*"
        # Whole programs, whose parts others have in small.
        "walk_run.generated_graph_with_restarts*"
        "bench_access.*"
        "bench_sizes.*"
        "bench_first.*"
        "bench_repetitions.*"
        "*heap_retention.*"
        "oversubscribe.*"
        "uvm_recommend.*"
        "*EachApp.*"
        "AppTrace.*"
        "Apps.*"
        # Its service must have its turn within a second.
        "*heap_bounded_kernel.*")
endif()
if(ORCHARD_SANITIZE STREQUAL "thread")
    # Left are the programs whose subject has several threads at once: the service, growth, the mailbox, backings, and
    # what kernels do to a heap, since the emulated device runs a grid's blocks on threads. Not among them:
    # - programs of one thread: structures of the host, the explorer's simulations and litmus programs, options and
    #   their texts, the model of the UVM driver, arithmetic;
    # - random programs and random walks, which are long there: the contract's tests have enough threads;
    # - subcommands (benchmarks, examples, the walk): their kernels call the same heap, so that neither they nor the
    #   program have to be compiled here.
    list(APPEND not_gtest simulation or_tree portion_tree segment_directory options layout command_line graph uvm_model
         uvm_study properties statistics apps oversubscribe examples_layout programs weak_memory random_walk
         random_walk_theory size_classes)
    string(
        JOIN ":" slow "${slow}"
        # Many launches on threads that this sanitizer makes ten times as slow.
        "*contract_exhaustion.*"
        "*contract_churn.*nearly_full*"
        "*contract_nearly_full.*"
        "*emulated_no_cache*"
        "*EveryClassHome.*"
        # Sizes and addresses: what threads do to the heap there, contract_free and lane_chunks_freeing do, too.
        "*contract_sizes.*"
        "*lane_chunks_contents.elements_larger*"
        "*lane_chunks_contents.lanes_in_the_order*"
        "*heap_elastic.trim_gives_back_more_extents*"
        # One thread, and a new backing for each failure, whose shadow memory adds up to 12 GiB.
        "TierMoves.AnyFailureOfTheDriverLosesNothing"
        "TierMoves.AShortageWithinAMoveLosesNothing"
        # It needs more addresses than this sanitizer leaves.
        "*heap_wide_range.*"
        # The same source as with words of 32 bits.
        "*bm32_words_of_64.*"
        "*corw_words_of_64.*"
        "*corw_locked_words_of_64.*"
        "*rw_malloc_words_of_64.*"
        "Runs/1.*")
endif()
set(left_out "")
if(NOT ORCHARD_HAS_CUDA)
    set(left_out "*/cuda*")
endif()

# What tests may be of: the subcommands with the library below them, or the library alone, without programs, scripts and
# the exploring scheduler's scenarios. CI has the latter under the address sanitizer, and .ci/nightly the former.
option(ORCHARD_TESTS_OF_LIBRARY "Build the tests of the library alone" OFF)
mark_as_advanced(ORCHARD_TESTS_OF_LIBRARY)
set(of_library ${ORCHARD_TESTS_OF_LIBRARY})
if(ORCHARD_SANITIZE STREQUAL "thread")
    set(of_library ON)
endif()
set(subject orchard_commands)
if(of_library)
    set(subject orchard_library)
    # Parts of subcommands that are reached by other headers; and whole runs of the program.
    list(APPEND not_gtest bench uvm_trace walk)
endif()

add_custom_target(orchard_tests)
if(TARGET orchard AND subject STREQUAL "orchard_commands")
    add_dependencies(orchard_tests orchard)
endif()

# Sets `result` to those of the files given that include or start subcommands.
function(orchard_that_need_commands result)
    set(found "")
    foreach(file IN LISTS ARGN)
        file(STRINGS "${file}" lines LIMIT_COUNT 1
             REGEX "^#include \"(examples/|profiling/|runtime/cli/map/|.*command_line\\.hpp|.*run_without_rights\\.hpp|.*run_command\\.hpp)")
        if(lines)
            list(APPEND found "${file}")
        endif()
    endforeach()
    set(${result} "${found}" PARENT_SCOPE)
endfunction()

# The thread sanitizer needs its shadow at fixed addresses, which strong address randomisation may take.
set(launch "")
if(ORCHARD_SANITIZE STREQUAL "thread")
    execute_process(COMMAND setarch -R true RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(failed EQUAL 0)
        set(launch setarch -R)
    endif()
endif()

# A report of a sanitizer ends its test, and says from where.
set(environment "")
if(ORCHARD_SANITIZE STREQUAL "thread")
    set(environment "TSAN_OPTIONS=halt_on_error=1")
elseif(ORCHARD_SANITIZE)
    set(environment "UBSAN_OPTIONS=print_stacktrace=1")
endif()

# Helpers that several folders share: tests/support/*.hpp, and sources where there are any.
add_library(orchard_test_support INTERFACE)
target_link_libraries(orchard_test_support INTERFACE orchard_explorer orchard_cli)
target_include_directories(orchard_test_support INTERFACE "${CMAKE_CURRENT_BINARY_DIR}/generated") # checkout.hpp
orchard_sources(support_sources tests/support)
if(support_sources)
    add_library(orchard_test_support_objects STATIC ${support_sources})
    orchard_target(orchard_test_support_objects)
    target_link_libraries(orchard_test_support_objects PUBLIC orchard_library GTest::gmock GTest::gtest)
    target_link_libraries(orchard_test_support INTERFACE orchard_test_support_objects)
endif()
# An archive: the linker takes its `main` where a program has none of its own.
add_library(orchard_test_main STATIC "${CMAKE_CURRENT_SOURCE_DIR}/cmake/test_main.cpp")
orchard_target(orchard_test_main)
target_link_libraries(orchard_test_main PUBLIC GTest::gtest)
target_link_libraries(orchard_test_support INTERFACE orchard_test_main GTest::gmock GTest::gtest)
target_compile_definitions(orchard_test_support INTERFACE ORCHARD_VERSION="${PROJECT_VERSION}")

# The optimizer takes three quarters of the time that a test's file takes to compile. The library, the program and the
# code of its commands are optimized fully, and the tests of those call it.
set(test_optimization "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>")

# The headers that the tests of most folders share, compiled once for all folders. GoogleMock's are not among them: to
# parse them costs a file less than to load them costs all that do without.
add_library(orchard_test_headers OBJECT "${CMAKE_CURRENT_SOURCE_DIR}/cmake/no_commands.cpp")
orchard_target(orchard_test_headers)
target_compile_options(orchard_test_headers PRIVATE ${test_optimization})
target_link_libraries(orchard_test_headers PRIVATE ${subject} orchard_test_support)
orchard_precompile(orchard_test_headers <gtest/gtest.h> <runtime/heap/heap.hpp>)

# One program of tests from sources and libraries; its tests are found when it has been linked.
function(orchard_add_tests folder sources)
    set(name ${folder}_tests)
    add_executable(${name} ${sources})
    orchard_target(${name})
    target_compile_options(${name} PRIVATE ${test_optimization})
    if(NOT folder IN_LIST apart)
        orchard_unite(${name})
    endif()
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/tests")
    # Directly: the objects of an object library do not pass through another library.
    target_link_libraries(${name} PRIVATE ${ARGN})
    set(each_case OFF)
    if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/tests/${folder}/main.cpp" AND NOT folder STREQUAL "explore")
        set(each_case ON) # what orchard_test_main says of a whole suite, another `main` does not
    endif()
    set(cost 1)
    if(folder STREQUAL "bench")
        set(cost 50) # whole benchmarks
    endif()
    set(found "${CMAKE_CURRENT_BINARY_DIR}/tests/${name}.cmake")
    add_custom_command(
        TARGET ${name} POST_BUILD VERBATIM
        BYPRODUCTS "${found}"
        COMMAND
            "${CMAKE_COMMAND}" "-DPROGRAM=$<TARGET_FILE:${name}>" "-DLAUNCH=${launch}" "-DPREFIX=${folder}."
            "-DOUTPUT=${found}" "-DSLOW=${slow}" "-DLEFT_OUT=${left_out}" "-DEACH_CASE=${each_case}"
            "-DTIMEOUT=${ORCHARD_TEST_TIMEOUT_S}" "-DSLOW_TIMEOUT=${ORCHARD_SLOW_TEST_TIMEOUT_S}"
            "-DCOST=${cost}" "-DENVIRONMENT=${environment}" "-DHAS_CUDA=${ORCHARD_HAS_CUDA}"
            -P "${CMAKE_CURRENT_SOURCE_DIR}/cmake/test_groups.cmake")
    # The script's rules are in the tests that it writes.
    set_property(TARGET ${name} APPEND PROPERTY LINK_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/cmake/test_groups.cmake")
    # A program that has not been built is a test that fails.
    file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/tests/${name}_or_none.cmake" @ONLY CONTENT [[
if(EXISTS "@found@")
    include("@found@")
else()
    add_test(@folder@.not_built "@name@, which is not built")
endif()
]])
    set_property(
        DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${CMAKE_CURRENT_BINARY_DIR}/tests/${name}_or_none.cmake")
    add_dependencies(orchard_tests ${name})
endfunction()

set(ORCHARD_TESTS_LEFT_OUT "" CACHE STRING "Folders of tests/ whose tests are not built, a list")
mark_as_advanced(ORCHARD_TESTS_LEFT_OUT)
file(GLOB folders CONFIGURE_DEPENDS RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}/tests" "${CMAKE_CURRENT_SOURCE_DIR}/tests/*")
foreach(folder IN LISTS folders)
    if(folder IN_LIST not_gtest OR folder IN_LIST ORCHARD_TESTS_LEFT_OUT OR NOT IS_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}/tests/${folder}")
        continue()
    endif()
    orchard_sources(sources tests/${folder})
    list(FILTER sources EXCLUDE REGEX "/tests/nvtx/recorder/") # a library of its own
    list(FILTER sources EXCLUDE REGEX "/tests/profile/programs/") # below
    # Tests of the library alone are built without the commands.
    set(below ${subject})
    if(below STREQUAL "orchard_commands")
        file(GLOB_RECURSE headers CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/tests/${folder}/*.hpp"
             "${CMAKE_CURRENT_SOURCE_DIR}/tests/${folder}/*.cuh")
        orchard_that_need_commands(with_commands ${sources} ${headers})
        if(NOT with_commands)
            set(below orchard_library)
        endif()
    else()
        orchard_that_need_commands(with_commands ${sources})
        list(REMOVE_ITEM sources ${with_commands})
    endif()
    if(folder STREQUAL "uvm_model" AND below STREQUAL "orchard_library")
        list(APPEND below orchard_uvm_model)
    endif()
    if(sources)
        orchard_add_tests(${folder} "${sources}" "${below}" orchard_test_support)
        target_precompile_headers(${folder}_tests REUSE_FROM orchard_test_headers)
        if(folder STREQUAL "properties")
            target_link_libraries(properties_tests PRIVATE rapidcheck)
        endif()
        if(folder STREQUAL "nvtx")
            orchard_use_nvtx_recorder(nvtx_tests)
        endif()
        if(folder STREQUAL "malloc_mc")
            orchard_use_malloc_mc(malloc_mc_tests)
        endif()
    endif()
endforeach()

# A program that stands in for one with CUDA, and a library for CUPTI: the recorder runs without a GPU.
if(TARGET orchard_profile AND TARGET profile_tests)
    set(programs "${CMAKE_CURRENT_SOURCE_DIR}/tests/profile/programs")
    add_library(orchard_fake_cupti SHARED "${programs}/fake_cupti.cpp")
    add_executable(orchard_with_cuda "${programs}/with_cuda.cpp")
    foreach(name orchard_fake_cupti orchard_with_cuda)
        orchard_target(${name})
        target_include_directories(${name} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
        target_include_directories(${name} SYSTEM PRIVATE "${ORCHARD_CUPTI_INCLUDE_DIR}" "${ORCHARD_CUDA_INCLUDE_DIR}")
        set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/tests/profile"
                                                 RUNTIME_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/tests/profile")
    endforeach()
    target_link_libraries(orchard_with_cuda PRIVATE orchard_library ${CMAKE_DL_LIBS})
    add_dependencies(profile_tests orchard_fake_cupti orchard_with_cuda orchard_profile)
endif()

if(TARGET orchard_explore AND NOT of_library)
    orchard_sources(sources tests/explore)
    list(FILTER sources INCLUDE REGEX "_test\\.cpp$")
    orchard_add_tests(explore "${sources}" orchard_explore_objects orchard_test_support)
    # The faults are found by the scenarios' own oracles: assertions and sanitizers have nothing to add.
    if(NOT CMAKE_BUILD_TYPE STREQUAL "Checked")
        orchard_sources(sources tests/mutants)
        # Not the support of other tests, which may bring the library itself.
        orchard_add_tests(mutants "${sources}" orchard_mutants orchard_test_main GTest::gtest)
    endif()
endif()

if(of_library)
    return() # the rest is about programs, the package and scripts
endif()

# A program without the other commands.
orchard_sources(sources tests/arena profiling/arena/example)
orchard_add_tests(arena "${sources}" orchard_arena_objects orchard_test_support)
if(ORCHARD_HAS_NVTX)
    orchard_use_nvtx_recorder(arena_tests)
endif()

# Scripts (the checks of the sources, the launcher, the report) and the Python package are tested by Python's own
# unittest.
find_package(Python3 COMPONENTS Interpreter QUIET)
if(Python3_FOUND)
    file(GLOB scripts CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/tests/*/*_test.py"
         "${CMAKE_CURRENT_SOURCE_DIR}/tests/*/test_*.py")
    foreach(script IN LISTS scripts)
        cmake_path(GET script PARENT_PATH folder)
        cmake_path(GET folder FILENAME folder)
        cmake_path(GET script STEM name)
        if(folder STREQUAL "python" AND ORCHARD_SANITIZE)
            continue() # an interpreter without the sanitizer's runtime does not load a library that needs it
        endif()
        set(interpreter Python3::Interpreter)
        if(TARGET orchard_uvm_python AND (folder STREQUAL "python" OR name STREQUAL "networkx_test"))
            set(interpreter Python::Interpreter) # that of its module, with the packages of tests/python/requirements.txt
        endif()
        add_test(NAME ${folder}.${name} COMMAND ${interpreter} -B "${script}")
        set_tests_properties(${folder}.${name} PROPERTIES TIMEOUT ${ORCHARD_TEST_TIMEOUT_S})
        if(folder STREQUAL "python") # the Python package, over the library of this build
            set_tests_properties(${folder}.${name} PROPERTIES SKIP_RETURN_CODE 77 ENVIRONMENT
                                 "ORCHARD_LIBRARY=$<TARGET_FILE:orchard_shared>")
        elseif(name MATCHES "^(networkx|prometheus)_test$")
            set_tests_properties(${folder}.${name} PROPERTIES SKIP_RETURN_CODE 77 ENVIRONMENT
                                 "ORCHARD_PROGRAM=$<TARGET_FILE:orchard>")
        endif()
    endforeach()
else()
    message(STATUS "Orchard: Python 3 was not found: the tests of the scripts are left out")
endif()

# The program that the compute sanitizer must report, for .ci/gpu; package.consumer builds it as a user does.
if(ORCHARD_HAS_CUDA AND ORCHARD_HAS_NVTX)
    add_executable(nvtx_use_after_free EXCLUDE_FROM_ALL tests/package/nvtx_use_after_free.cu)
    orchard_target(nvtx_use_after_free)
    target_link_libraries(nvtx_use_after_free PRIVATE orchard_library)
endif()

# What the package installs, and the Python package loads.
set(installed_libraries ${orchard_exported})
list(REMOVE_ITEM installed_libraries orchard_replace_malloc) # an interface
if(ORCHARD_HAS_CUDA)
    list(APPEND installed_libraries orchard_device_artifacts)
endif()
if(TARGET orchard_uvm_python)
    list(APPEND installed_libraries orchard_uvm_python)
endif()
add_dependencies(orchard_tests ${installed_libraries})

# A project of its own that knows only the installed package, or has Orchard as a subdirectory.
if(TARGET orchard)
    set(consumer_flags "")
    if(ORCHARD_SANITIZE)
        set(consumer_flags "-fsanitize=${ORCHARD_SANITIZE}")
    endif()
    add_test(
        NAME package.consumer
        COMMAND
            "${CMAKE_COMMAND}" "-DBINARY_DIR=${CMAKE_CURRENT_BINARY_DIR}"
            "-DCONSUMER_DIR=${CMAKE_CURRENT_SOURCE_DIR}/tests/package" "-DGENERATOR=${CMAKE_GENERATOR}"
            "-DCXX_COMPILER=${CMAKE_CXX_COMPILER}" "-DCXX_FLAGS=${consumer_flags}"
            "-DCUDA_COMPILER=${CMAKE_CUDA_COMPILER}" "-DCUDA_ARCHITECTURES=${ORCHARD_CUDA_ARCHITECTURES}"
            "-DCUDA_FLAGS=${CMAKE_CUDA_FLAGS} ${CMAKE_CUDA_FLAGS_RELEASE}" -P
            "${CMAKE_CURRENT_SOURCE_DIR}/tests/package/check.cmake")
    set_tests_properties(package.consumer PROPERTIES TIMEOUT ${ORCHARD_SLOW_TEST_TIMEOUT_S} LABELS slow)
    find_program(ORCHARD_SHLIBDEPS dpkg-shlibdeps)
    find_program(ORCHARD_FILE file)
    mark_as_advanced(ORCHARD_SHLIBDEPS ORCHARD_FILE)
    if(ORCHARD_SHLIBDEPS AND ORCHARD_FILE AND NOT ORCHARD_SANITIZE)
        add_test(
            NAME package.deb
            COMMAND
                "${CMAKE_COMMAND}" "-DBINARY_DIR=${CMAKE_CURRENT_BINARY_DIR}" "-DCPACK=${CMAKE_CPACK_COMMAND}"
                "-DCONSUMER_DIR=${CMAKE_CURRENT_SOURCE_DIR}/tests/package" "-DGENERATOR=${CMAKE_GENERATOR}"
                "-DCXX_COMPILER=${CMAKE_CXX_COMPILER}" "-DCUDA_COMPILER=${CMAKE_CUDA_COMPILER}" -P
                "${CMAKE_CURRENT_SOURCE_DIR}/tests/package/deb.cmake")
        set_tests_properties(package.deb PROPERTIES TIMEOUT ${ORCHARD_SLOW_TEST_TIMEOUT_S} LABELS slow)
    endif()
    if(ORCHARD_HAS_CUDA)
        set_tests_properties(package.consumer PROPERTIES FIXTURES_SETUP package)
        foreach(program consumer unchanged unchanged_source heap_ref_ON heap_ref_OFF c_device_ON c_device_OFF moves
                managed_growth)
            add_test(NAME package.cuda_${program}
                     COMMAND "${CMAKE_CURRENT_BINARY_DIR}/package-check/build-cuda/${program}")
            set_tests_properties(package.cuda_${program} PROPERTIES FIXTURES_REQUIRED package SKIP_RETURN_CODE 77 TIMEOUT
                                 ${ORCHARD_TEST_TIMEOUT_S} LABELS slow)
        endforeach()
        # first_kernel_later is not linked with the shared library, and loads it while it runs.
        set(first_kernel_ways launch cooperative with_attributes graph beside_capture library copies module threads
            manual foreign reset exit)
        set(first_kernel_later_ways library copies)
        foreach(program first_kernel first_kernel_later)
            foreach(way IN LISTS ${program}_ways)
                add_test(NAME package.${program}_${way}
                         COMMAND "${CMAKE_CURRENT_BINARY_DIR}/package-check/build-cuda/${program}" ${way})
                set_tests_properties(package.${program}_${way} PROPERTIES FIXTURES_REQUIRED package SKIP_RETURN_CODE 77
                                     TIMEOUT ${ORCHARD_TEST_TIMEOUT_S} LABELS slow)
            endforeach()
        endforeach()
        set_tests_properties(package.first_kernel_manual PROPERTIES ENVIRONMENT ORCHARD_INIT=manual)
    endif()
endif()
