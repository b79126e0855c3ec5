# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
#
# `cpack -G DEB` in a build folder: one Debian package of all that `cmake --install` installs. Included after the rules
# of installation.

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME orchard)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
    "Any thread of any kernel calls malloc and free; the heap grows while kernels run.
This package has the program orchard, the static library with its headers and
its CMake package, and the documents.")
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "The Orchard authors")
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
                                                WORLD_READ WORLD_EXECUTE)
# What the program itself needs is looked up in its file. The library is an archive, so that projects that link it need
# what it was compiled with: of Abseil the same release, whose number is part of all its names.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
string(REGEX MATCH "^[0-9]+" absl_release "${absl_VERSION}")
math(EXPR next_release "${absl_release} + 1")
string(
    JOIN ", " CPACK_DEBIAN_PACKAGE_DEPENDS "libabsl-dev (>= ${absl_release})" "libabsl-dev (<< ${next_release})"
    "libboost-context-dev (>= 1.74)")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "g++ (>= 4:12), cmake (>= 3.25)")

# The program is optional in an installation, and not in a package.
file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/check_package.cmake" @ONLY CONTENT [[
if(NOT EXISTS "${CPACK_TEMPORARY_DIRECTORY}/usr/bin/orchard")
    message(FATAL_ERROR "the program is not built yet: cmake --build '@CMAKE_CURRENT_BINARY_DIR@' --target orchard")
endif()
]])
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_CURRENT_BINARY_DIR}/check_package.cmake")

include(CPack)
