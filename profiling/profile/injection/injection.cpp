// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The functions that liborchard_profile.so has for others: the driver's entry, and the one that heaps call.

#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "profiling/profile/injection/recorder.hpp"

namespace orchard::profiling {
namespace {

// Never destroyed: CUPTI's threads may call until the process ends.
std::atomic<recorder*> the_recorder{nullptr};

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

/// Makes the names of this library visible to heaps of the program, which search for one by name.
void become_global() {
    Dl_info self{};
    if (::dladdr(reinterpret_cast<void*>(&become_global), &self) != 0) {
        (void)::dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
    }
}

/// Starts to record, once. The program goes on whatever happens here.
void begin() {
    const recorder_settings settings{variable(variable_folder), variable(variable_cupti),
                                     std::strtoull(variable(variable_limit).c_str(), nullptr, 10),
                                     variable(variable_samples) == "1"};
    if (settings.folder.empty()) {
        std::fputs("liborchard_profile.so: loaded without `orchard profile`, which starts it; nothing is recorded\n",
                   stderr);
        return;
    }
    auto* made = new recorder;
    if (!made->begin(settings)) {
        std::fprintf(stderr, "liborchard_profile.so: %s: no file of records can be made; nothing is recorded\n",
                     settings.folder.c_str());
        return;
    }
    become_global();
    // Release: heaps read it on other threads.
    the_recorder.store(made, std::memory_order_release);
    std::atexit([] { the_recorder.load(std::memory_order_acquire)->end(); });
}

}  // namespace
}  // namespace orchard::profiling

/// The driver calls it when it is initialised, where CUDA_INJECTION64_PATH names this library. Returns 1.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
    static std::atomic_flag done;
    // Relaxed: the driver makes the calls one after the other.
    if (!done.test_and_set(std::memory_order_relaxed)) {
        orchard::profiling::begin();
    }
    return 1;
}

/// Heaps call it (runtime/heap/profiled_heap.hpp).
extern "C" __attribute__((visibility("default"))) void orchard_profile_heap_1(orchard::profiled_event event,
                                                                              const orchard::profiled_heap* heap) {
    auto* to = orchard::profiling::the_recorder.load(std::memory_order_acquire);
    if (to != nullptr && heap != nullptr) {
        to->tell_heap(event, *heap);
    }
}
