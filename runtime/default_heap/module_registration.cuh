// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The announcement of a module to the default heaps, for sources that define a `heap_root`. Needs no Abseil.

namespace orchard::detail {

/// Gives the device address of a module's `orchard_root` on the current GPU; returns a `cudaError_t`.
using find_root = int (*)(void** root);

/// Announces a module. It is called before main, or when the module is loaded by `dlopen`, and makes no CUDA call.
/// `find` stays valid until `remove_module`.
void add_module(find_root find) noexcept;

/// Removes a module that is being unloaded.
void remove_module(find_root find) noexcept;

/// Announces a module as long as it is loaded: an object with static storage duration.
class module_registration {
public:
    explicit module_registration(find_root find) noexcept : find_{find} { add_module(find); }
    ~module_registration() { remove_module(find_); }
    module_registration(const module_registration&) = delete;
    module_registration& operator=(const module_registration&) = delete;

private:
    find_root find_;
};

}  // namespace orchard::detail
