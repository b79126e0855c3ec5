// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A program that stands in for one with CUDA in tests of `orchard profile`: it loads the injected library as the
/// driver does, and lets fake_cupti.cpp report kernels, copies and unified memory. Its arguments say what it does:
///
///     records        two launches of one kernel, one of another, a copy, a fill, unified memory at fixed addresses
///     heap           a heap of Orchard on the emulated device, unified memory in one of its blocks
///     fork           a child ends by exit
///     print          a line on standard output
///     exit N         ends with exit code N
///     kill N         ends by signal N
///     await N        waits for signal N, and ends with exit code 40

#include <cupti.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "runtime/heap/heap.hpp"
#include "tests/profile/programs/fake_cupti.hpp"

namespace {

fake_event_function event = nullptr;
fake_record_function add_record = nullptr;

template <class Function>
Function function_of(void* library, const char* name) {
    auto function = reinterpret_cast<Function>(::dlsym(library, name));
    if (function == nullptr) {
        std::fprintf(stderr, "no %s\n", name);
        std::exit(99);
    }
    return function;
}

/// As the driver does in its first call.
void initialise() {
    const char* path = std::getenv("CUDA_INJECTION64_PATH");
    void* injected = path == nullptr ? nullptr : ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (injected == nullptr) {
        std::fprintf(stderr, "no injection: %s\n", path == nullptr ? "not set" : ::dlerror());
        std::exit(98);
    }
    function_of<int (*)()>(injected, "InitializeInjection")();
    void* cupti = ::dlopen(std::getenv("ORCHARD_PROFILE_CUPTI"), RTLD_NOW | RTLD_NOLOAD);
    if (cupti == nullptr) {
        return;  // a library that cannot be loaded
    }
    event = function_of<fake_event_function>(cupti, fake_event_name);
    add_record = function_of<fake_record_function>(cupti, fake_record_name);
    event(CUPTI_CBID_RESOURCE_CU_INIT_FINISHED);
    event(CUPTI_CBID_RESOURCE_CONTEXT_CREATED);
}

template <class Record>
void add(const Record& record) {
    if (add_record != nullptr) {
        add_record(&record, sizeof(record));
    }
}

void add_kernel(const char* name, std::uint64_t start, std::uint64_t end, int blocks) {
    CUpti_ActivityKernel9 k{};
    k.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    k.name = name;
    k.start = start;
    k.end = end;
    k.gridX = blocks;
    k.gridY = k.gridZ = k.blockY = k.blockZ = 1;
    k.blockX = 256;
    k.registersPerThread = 40;
    add(k);
}

void add_unified(CUpti_ActivityUnifiedMemoryCounterKind kind, std::uint64_t start, std::uint64_t address,
                 std::uint64_t value, std::uint32_t flags) {
    CUpti_ActivityUnifiedMemoryCounter2 u{};
    u.kind = CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER;
    u.counterKind = kind;
    u.start = start;
    u.end = start + 10;
    u.address = address;
    u.value = value;
    u.flags = flags;
    add(u);
}

void add_records() {
    add_kernel("_Z4walkPi", 5000, 8000, 400);
    add_kernel("_Z4walkPi", 9000, 10000, 400);
    add_kernel("_ZN7orchard6device5drainEv", 11000, 11500, 1);
    CUpti_ActivityMemcpy5 copy{};
    copy.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
    copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
    copy.bytes = 4096;
    copy.start = 1;
    copy.end = 101;
    add(copy);
    CUpti_ActivityMemset4 fill{};
    fill.kind = CUPTI_ACTIVITY_KIND_MEMSET;
    fill.bytes = 512;
    add(fill);
    CUpti_ActivityMemoryPool2 pool{};
    pool.kind = CUPTI_ACTIVITY_KIND_MEMORY_POOL;
    pool.memoryPoolOperationType = CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_TRIMMED;
    add(pool);
    // The page comes twice: the record of the way back is missing.
    add_unified(CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT, 90, 0x100000, 3, 1);
    add_unified(CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD, 100, 0x100000, 65536, 2);
    add_unified(CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD, 200, 0x100000, 4096, 3);
    add_unified(CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH, 300, 0x100000, 4096, 4);
}

/// A block of the host's, and a transfer within it. The heap ends with the block in use.
int add_heap() {
    auto heap = orchard::heap::create({.device = orchard::device_option::emulated, .capacity = 64u << 20});
    if (!heap.ok()) {
        std::fprintf(stderr, "%s\n", heap.status().ToString().c_str());
        return 97;
    }
    const auto block = heap->allocate_on_host(3u << 20);
    if (!block.ok()) {
        return 96;
    }
    add_unified(CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD, 100000,
                reinterpret_cast<std::uint64_t>(*block) & ~std::uint64_t{4095}, 8192, 2);
    return 0;
}

void end_by(int signal) {
    ::signal(signal, SIG_DFL);
    ::raise(signal);
}

}  // namespace

int main(int argc, char** argv) {
    initialise();
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        const int number = i + 1 < argc ? std::atoi(argv[i + 1]) : 0;
        if (word == "records") {
            add_records();
        } else if (word == "heap") {
            if (const int failed = add_heap(); failed != 0) {
                return failed;
            }
        } else if (word == "fork") {
            const pid_t child = ::fork();
            if (child == 0) {
                std::exit(0);
            }
            ::waitpid(child, nullptr, 0);
        } else if (word == "print") {
            std::puts("a line of the program");
        } else if (word == "exit") {
            return number;
        } else if (word == "kill") {
            end_by(number);
        } else if (word == "await") {
            ::alarm(30);  // where it does not come
            ::signal(number, [](int) { std::_Exit(40); });
            std::puts("ready");
            std::fflush(stdout);
            ::kill(::getppid(), number);
            for (;;) {
                ::pause();
            }
        }
    }
    return 0;
}
