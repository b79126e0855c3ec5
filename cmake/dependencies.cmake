# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
#
# The libraries that Orchard stands on. Their Debian packages are named in packages.txt.

if(ORCHARD_SANITIZE)
    set(static OFF)
else()
    set(static ON)
endif()

find_package(Threads REQUIRED)

find_package(absl REQUIRED CONFIG)
set(ORCHARD_ABSEIL
    absl::btree
    absl::cleanup
    absl::flat_hash_map
    absl::flat_hash_set
    absl::inlined_vector
    absl::span
    absl::status
    absl::statusor
    absl::str_format
    absl::strings
    absl::time)

set(Boost_USE_STATIC_LIBS ${static})
find_package(Boost 1.74 REQUIRED CONFIG COMPONENTS context)

if(ORCHARD_PROGRAM)
    set(ZLIB_USE_STATIC_LIBS ${static})
    find_package(ZLIB REQUIRED)
    find_package(CLI11 REQUIRED CONFIG)
    find_package(nlohmann_json REQUIRED CONFIG)
    # The wide library, since bars are no ASCII. Its own dependency, the terminal's description, is a library beside it.
    find_path(ORCHARD_NCURSES_INCLUDE ncursesw/curses.h)
    find_library(ORCHARD_NCURSES NAMES libncursesw.a ncursesw)
    find_library(ORCHARD_TINFO NAMES libtinfo.a tinfo)
    mark_as_advanced(ORCHARD_NCURSES_INCLUDE ORCHARD_NCURSES ORCHARD_TINFO)
    if(ORCHARD_NCURSES AND ORCHARD_TINFO AND ORCHARD_NCURSES_INCLUDE)
        set(ORCHARD_HAS_NCURSES 1)
    else()
        set(ORCHARD_HAS_NCURSES 0)
        message(STATUS "Orchard: ncurses was not found: `orchard top` shows no screen, and prints all the same")
    endif()
endif()
if(ORCHARD_BENCHMARKS)
    find_package(benchmark CONFIG QUIET)
    if(NOT benchmark_FOUND)
        message(STATUS "Orchard: Google Benchmark was not found: the benchmarks are not built")
    endif()
endif()

# Links the archive where a shared imported library has one beside it, for the targets given and all below them.
# Debian's package of Abseil brings both, and its CMake files name the shared ones. These are kept in the global property
# orchard_replaced_libraries: the archives do not fit a shared library (cmake/device_library.cmake).
function(orchard_prefer_archives)
    get_property(seen GLOBAL PROPERTY orchard_archives_seen)
    foreach(target IN LISTS ARGN)
        string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" target "${target}")
        if(NOT TARGET "${target}" OR target IN_LIST seen)
            continue()
        endif()
        set_property(GLOBAL APPEND PROPERTY orchard_archives_seen ${target})
        get_target_property(type ${target} TYPE)
        get_target_property(configs ${target} IMPORTED_CONFIGURATIONS)
        if(type STREQUAL "SHARED_LIBRARY" AND configs)
            foreach(config IN LISTS configs)
                get_target_property(shared ${target} IMPORTED_LOCATION_${config})
                string(REGEX REPLACE "\\.so[.0-9]*$" ".a" archive "${shared}")
                if(EXISTS "${archive}")
                    set_property(GLOBAL APPEND PROPERTY orchard_replaced_libraries "${shared}")
                    set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_${config} "${archive}")
                endif()
            endforeach()
        endif()
        get_target_property(below ${target} INTERFACE_LINK_LIBRARIES)
        if(below)
            orchard_prefer_archives(${below})
            get_property(seen GLOBAL PROPERTY orchard_archives_seen)
        endif()
    endforeach()
endfunction()
# Not the targets of a project that adds this one.
if(static AND PROJECT_IS_TOP_LEVEL)
    orchard_prefer_archives(${ORCHARD_ABSEIL})
endif()
