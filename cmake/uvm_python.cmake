# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
#
# The target orchard_uvm_python: the module orchard._uvm, which is the model of the UVM driver for Python. It needs
# nanobind as a package of the interpreter, and Python's headers. A wheel always has it; other builds where both are
# found: with the interpreter that `./orchard test` sets up in build/python, with one that -DPython_EXECUTABLE names, or
# with the system's.

if(ORCHARD_SANITIZE)
    return() # an interpreter without the sanitizer's runtime does not load a module that needs it
endif()
set(prepared "${CMAKE_CURRENT_SOURCE_DIR}/build/python/bin/python3")
if(NOT orchard_python_package AND NOT Python_EXECUTABLE AND EXISTS "${prepared}")
    set(Python_EXECUTABLE "${prepared}")
endif()
if(orchard_python_package)
    set(needed REQUIRED)
else()
    set(needed QUIET)
endif()
# scikit-build-core names the component of the stable interface where the wheel is to have that.
find_package(Python 3.9 ${needed} COMPONENTS Interpreter Development.Module ${SKBUILD_SABI_COMPONENT})
if(Python_FOUND)
    execute_process(
        COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir
        OUTPUT_VARIABLE nanobind_dir OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    find_package(nanobind CONFIG ${needed} HINTS "${nanobind_dir}")
endif()
if(NOT Python_FOUND OR NOT nanobind_FOUND)
    message(STATUS "Orchard: nanobind or Python's headers were not found: orchard.uvm, a part of the Python package, is not built")
    return()
endif()

# Linked in: the package needs no other package of nanobind's at run time.
nanobind_add_module(orchard_uvm_python STABLE_ABI NB_STATIC NOMINSIZE NB_SUPPRESS_WARNINGS
                    runtime/python/uvm_module.cpp)
set_target_properties(orchard_uvm_python PROPERTIES OUTPUT_NAME _uvm)
orchard_target(orchard_uvm_python)
orchard_link_into_shared(orchard_uvm_python orchard_uvm_model orchard_library)
