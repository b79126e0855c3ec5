// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The announcement of a module to the default heaps, for sources that define a `heap_root`. Needs no Abseil.

extern "C" {

/// Gives the device address of a module's `orchard_root` on the current GPU; returns a `cudaError_t`.
typedef int (*orchard_find_root)(void** root);  // NOLINT(modernize-use-using): with C linkage

/// Announces a module. It is called before main, or when the module is loaded by `dlopen`, and makes no CUDA call.
/// `find` stays valid until `orchard_remove_module`.
void orchard_add_module(orchard_find_root find) noexcept;

/// Removes a module that is being unloaded.
void orchard_remove_module(orchard_find_root find) noexcept;

}  // extern "C"

namespace orchard::detail {

/// Announces a module as long as it is loaded: an object with static storage duration.
class module_registration {
public:
    explicit module_registration(orchard_find_root find) noexcept : find_{find} { orchard_add_module(find); }
    ~module_registration() { orchard_remove_module(find_); }
    module_registration(const module_registration&) = delete;
    module_registration& operator=(const module_registration&) = delete;

private:
    orchard_find_root find_;
};

}  // namespace orchard::detail
