// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Orchard's calls of NVTX, NVIDIA's interface through which a program tells tools what it does. No type of NVTX is
/// visible here: a build without its headers has the same functions, which do nothing.
///
///     program --> nvtx::push("compute") --> a tool is attached: its function        Nsight Systems, Nsight Compute,
///                                      \--> no tool: one test of a pointer            compute-sanitizer, a test's
///                                      library
///
/// A tool is attached when the first call is made, by the variable NVTX_INJECTION64_PATH, which the tools set; later
/// ones are not found. All names are in the domain `orchard`.

#include <cstdint>
#include <span>
#include <string_view>

namespace orchard::nvtx {

/// Returns true if this build has NVTX (CMake's option ORCHARD_NVTX).
bool is_built();
/// Returns what this build has, for the program's texts: `NVTX 3 with counters and memory`, or `no NVTX`.
std::string_view description();

/// Returns true if a tool listens to ranges and counters. The first call attaches tools, which loads their library: it
/// takes milliseconds if there is one. No thread that answers kernels may make it first. Later calls cost one load.
bool is_attached();

/// The registered strings of ranges. `build` to `migrate` are phases of a program (phase.hpp).
enum class name : std::uint8_t { serve, wait, commit, decommit, move, trim, build, allocate, compute, free, migrate };
inline constexpr int names = 11;
std::string_view text_of(name n);

/// Begin and end a range of the calling thread, with a number. Ranges of one thread nest. Nothing without a tool.
void push(name n, std::uint64_t payload);
void pop();
/// Begins a range that any thread may end, and returns its number, for `end`. 0 without a tool, which `end` ignores.
std::uint64_t start(name n, std::uint64_t payload);
void end(std::uint64_t range);

/// Names the calling thread: `orchard ` and this name.
void name_thread(std::string_view name);
/// Returns true if this build can name streams, which takes CUDA's header.
bool names_streams();
/// Names a stream of CUDA. Nothing for null.
void name_stream(void* stream, const char* name);

/// Registers a counter of 64-bit integers, and returns its number for `sample`; 0 without a tool, which `sample`
/// ignores.
/// @param unit  of a value, such as `B`
std::uint64_t register_counter(const char* name, const char* description, const char* unit);
void sample(std::uint64_t counter, std::int64_t value);

/// A range of addresses.
struct address_range {
    const void* at;
    std::uint64_t bytes;
};

/// What a memory heap means for a tool that checks accesses.
enum class heap_use : std::uint8_t {
    layout,         ///< its regions are notes; every access is allowed
    sub_allocator,  ///< an access outside of its regions is an error
};

/// A memory heap that was registered with a tool; null if there is none.
struct memory_heap;
/// Registers a memory heap, and returns it; null if no tool listens to NVTX's memory functions, or if the tool refuses
/// this heap: compute-sanitizer refuses each `layout`, and memory that is not of `cudaMalloc`. A tool may listen to
/// these functions alone, and not to ranges. `unregister_heap` forgets the regions, too.
memory_heap* register_heap(address_range all, heap_use use, const char* name);
void unregister_heap(memory_heap* heap);
/// Register regions of such a heap, and forget regions, which are named by their first byte. Nothing for null.
void register_regions(memory_heap* heap, std::span<const address_range> regions);
void unregister_regions(memory_heap* heap, std::span<const void* const> first_bytes);

}  // namespace orchard::nvtx
