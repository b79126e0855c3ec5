// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// What `malloc` and `free` of a program that is linked with orchard::replace_malloc call (replace_malloc.ptx).
///
/// Callers of these two names expect more than callers of other functions: nvcc compiles the calls as those of the
/// driver's functions, which keep all registers from R32 on, while other functions may change half of them (seen in the
/// machine code of CUDA 13.0 for 8.0 to 12.0). This file is therefore compiled for 32 registers
/// (cmake/device_library.cmake). So is all that it calls: it has a copy of the heap's functions, in a namespace of its
/// own, since the device linker would otherwise take those of another file, which have more registers.

#define orchard orchard_in_32_registers

#include "runtime/default_heap/heap_root.cuh"
#include "runtime/default_heap/module_registration.cuh"

extern "C" {
__constant__ orchard::heap_root orchard_replaced_root = {
    orchard::heap_root::current_abi, sizeof(orchard::heap_root), {}};
}

extern "C" __device__ void* orchard_replaced_malloc(std::size_t bytes) { return orchard_replaced_root.malloc(bytes); }

extern "C" __device__ void orchard_replaced_free(void* block) { orchard_replaced_root.free(block); }

namespace {
int find_root(void** root) { return static_cast<int>(cudaGetSymbolAddress(root, orchard_replaced_root)); }
const orchard::detail::module_registration registered{find_root};
}  // namespace
