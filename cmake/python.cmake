# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
#
# What pyproject.toml builds and puts into the Python package, beside the sources of runtime/python/orchard:
#
#   orchard/lib/liborchard.so, and with CUDA orchard_device.ptx, .ltoir and .fatbin beside it
#   orchard/include/orchard/orchard.h
#   orchard/_uvm.*.so: cmake/uvm_python.cmake
#
# Included only where scikit-build-core builds this project (SKBUILD).

# A wheel has no symbolic links: one file, without a version in its name.
set_property(TARGET orchard_shared PROPERTY VERSION)
set_property(TARGET orchard_shared PROPERTY SOVERSION)

add_custom_target(orchard_python DEPENDS orchard_shared orchard_uvm_python)
install(TARGETS orchard_shared LIBRARY DESTINATION orchard/lib COMPONENT python)
install(TARGETS orchard_uvm_python LIBRARY DESTINATION orchard COMPONENT python)
install(FILES runtime/include/orchard/orchard.h DESTINATION orchard/include/orchard COMPONENT python)
if(ORCHARD_HAS_CUDA)
    add_dependencies(orchard_python orchard_device_artifacts)
    install(FILES ${artifacts} DESTINATION orchard/lib COMPONENT python)
endif()
