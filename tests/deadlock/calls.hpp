// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The calls that another thread makes while a heap grows. Making the list makes no call of CUDA.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/heap/heap.hpp"

namespace orchard::test {

inline constexpr std::uint64_t mib_bytes = std::uint64_t{1} << 20;
inline constexpr int unlimited = 1 << 30;
/// The default stream, which the kernel that grows the heap runs on.
inline constexpr cudaStream_t default_stream = nullptr;

/// The objects that the calls use.
struct bed {
    heap* grown = nullptr;            ///< the heap that grows
    cudaStream_t other = nullptr;     ///< waits for no other stream
    char* device = nullptr;           ///< 8 MiB of memory of the device
    char* pinned = nullptr;           ///< as much, pinned
    std::vector<char> pageable;       ///< as much, pageable
    std::vector<void*> cache_bitmap;  ///< objects that a call uses up
    std::vector<heap> other_heaps;

    /// Makes all of them but the heaps, on the current GPU. Errors: CUDA's own.
    absl::Status set_up();
};

/// One call. The resources that it leaves are released at the end of the process.
struct blocking_call {
    std::string name;
    int most;                            ///< times that it can be made in one process
    std::function<absl::Status()> make;  ///< by another thread, while the kernel runs
    /// Called before the kernel. Errors: Unavailable if this machine cannot make the call.
    std::function<absl::Status()> prepare = [] { return absl::OkStatus(); };
    bool apart = false;         ///< the kernel runs on a stream that the default stream does not wait for
    bool reserved = false;      ///< all that the kernel takes is reserved before
    bool ends_process = false;  ///< `make` does not return
};

using call_list = std::vector<blocking_call>;

/// Returns all calls, in the order of the table. Each is valid as long as `on`.
call_list all_calls(bed* on);

/// The parts of that list.
call_list memory_calls(bed* on);
call_list pinning_calls(bed* on);
call_list launching_calls(bed* on);
call_list stream_calls(bed* on);
call_list copying_calls(bed* on);
call_list setting_calls(bed* on);
call_list heap_calls(bed* on);

/// Makes one thing.
using thing_maker = std::function<absl::StatusOr<void*>()>;

/// Returns a call that makes things, which are kept.
blocking_call making(const std::string& name, int most, thing_maker make);
/// Returns a call that ends things, of which `most` are made before the kernel.
blocking_call ending(const std::string& name, int most, bed* on, thing_maker make,
                     std::function<absl::Status(void*)> end);

}  // namespace orchard::test
