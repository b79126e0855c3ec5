# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
#
# `cmake --install`: the program, the library with its headers, and a package that find_package(orchard) finds.

include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/orchard")

if(ORCHARD_PROGRAM AND TARGET orchard)
    # Optional, so that the libraries can be installed without it.
    install(TARGETS orchard RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" OPTIONAL)
    set(shell_files "${CMAKE_CURRENT_BINARY_DIR}/generated/shell")
    install(FILES "${shell_files}/orchard.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" OPTIONAL)
    install(FILES "${shell_files}/orchard" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" OPTIONAL)
    install(FILES "${shell_files}/_orchard" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions" OPTIONAL)
endif()
install(TARGETS orchard_library ${orchard_exported} EXPORT orchardTargets
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
# All that is built of what is installed: before `cmake --install` or cpack, where the tests are not wanted.
add_custom_target(orchard_installed)
add_dependencies(orchard_installed orchard_library ${orchard_exported})
if(TARGET orchard_profile)
    install(TARGETS orchard_profile LIBRARY DESTINATION "${orchard_profile_folder}" OPTIONAL)
endif()
foreach(optional orchard orchard_device_artifacts orchard_profile)
    if(TARGET ${optional})
        add_dependencies(orchard_installed ${optional})
    endif()
endforeach()
install(DIRECTORY runtime/include/orchard DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
# The folders as they stand in the repository, so that includes written from its root resolve.
install(
    DIRECTORY uvm device host runtime
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/orchard/detail-root"
    FILES_MATCHING
    PATTERN "*.hpp"
    PATTERN "*.cuh"
    PATTERN "*.def"
    PATTERN runtime/include EXCLUDE
    PATTERN runtime/cli EXCLUDE
    PATTERN device/simt/explore EXCLUDE
    PATTERN uvm/model EXCLUDE)
install(DIRECTORY examples/data/ DESTINATION "${CMAKE_INSTALL_DATADIR}/orchard" FILES_MATCHING PATTERN "*.gz"
        PATTERN "README.md")
# The documents as they stand in the repository, so that the links between them lead on.
install(FILES LICENSE README.md CHANGELOG.md CITATION.cff DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY docs DESTINATION "${CMAKE_INSTALL_DOCDIR}")

install(EXPORT orchardTargets NAMESPACE orchard:: DESTINATION "${package_dir}")
configure_package_config_file(cmake/orchardConfig.cmake.in orchardConfig.cmake INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file(orchardConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/orchardConfig.cmake" "${CMAKE_CURRENT_BINARY_DIR}/orchardConfigVersion.cmake"
              cmake/cuda_dialect.cmake
        DESTINATION "${package_dir}")
