// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The calls that another thread of `driver_locks` makes while a kernel runs, and the data that they use. Each blocker
/// is one call, or a pair of calls. The program shows during which of them other calls complete.

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace driver_locks {

inline constexpr std::size_t mib = std::size_t{1} << 20;
inline constexpr int unlimited = 1 << 30;  ///< calls; more than are made while a kernel runs

/// Throws the call's name and its error, if it failed.
inline void check(cudaError_t error, const char* call) {
    if (error != cudaSuccess) {
        (void)cudaGetLastError();  // so that a later launch does not report it again
        throw std::runtime_error(std::string(call) + ": " + cudaGetErrorName(error) + ": " + cudaGetErrorString(error));
    }
}

/// As above, for a call of the driver.
inline void check(CUresult error, const char* call) {
    if (error != CUDA_SUCCESS) {
        const char* name = nullptr;
        cuGetErrorName(error, &name);
        throw std::runtime_error(std::string(call) + ": " + (name != nullptr ? name : "unknown error"));
    }
}

/// A kernel that is launched before any measurement, so that a launch of it loads nothing.
static __global__ void loaded(char* at) { *at = 0; }

/// Kernels, each of which is launched at most once, since only the first launch loads a kernel.
template <int N>
__global__ void never_loaded(int* to) {
    if (to != nullptr) {
        *to = N;
    }
}

/// Returns the addresses of N such kernels.
template <int... N>
std::vector<const void*> kernels_of(std::integer_sequence<int, N...>) {
    return {reinterpret_cast<const void*>(never_loaded<N>)...};
}

/// Returns a function that creates an object by a call which stores its address or handle. The handle is returned as a
/// pointer, so that all kinds of objects fit one list.
template <class T, class... Arguments>
std::function<void*()> maker(const char* name, cudaError_t (*call)(T*, Arguments...), Arguments... arguments) {
    return [=] {
        T made{};
        check(call(&made, arguments...), name);
        return reinterpret_cast<void*>(made);
    };
}

/// Returns a function that destroys such an object.
template <class T>
std::function<void(void*)> destroyer(const char* name, cudaError_t (*call)(T)) {
    return [=](void* made) { check(call(reinterpret_cast<T>(made)), name); };
}

/// A call that another thread makes while steps are made.
struct blocker {
    std::string name;                     ///< as shown in results
    int most;                             ///< number of calls during one kernel
    std::function<void()> prepare;        ///< before the kernel
    std::function<void()> call;           ///< during the kernel, in another thread
    std::function<void()> clean = [] {};  ///< after the kernel
    bool apart = false;                   ///< the kernel has its own stream, on which nothing else waits
};

/// The data of blockers and steps, and the list of blockers.
struct bench {
    /// Makes streams, buffers and a graph, runs once what steps queue, and lists the blockers. Throws the first error.
    bench();
    /// Allocation and release: device memory, pools, pinned and registered host memory, managed memory.
    void add_memory();
    /// First launches, modules, graphs.
    void add_launches();
    /// Streams, events, synchronization, copies, queries, limits, peers.
    void add_others();
    /// Adds a blocker that creates objects, which are destroyed after the kernel.
    void add_making(const char* name, int most, std::function<void*()> make, std::function<void(void*)> destroy) {
        blockers.push_back({name, most, [] {}, [=] { objects.push_back(make()); }, [=] { empty(destroy); }});
    }
    /// Adds a blocker that destroys objects, which are created before the kernel.
    void add_destroying(const char* name, int most, std::function<void*()> make, std::function<void(void*)> destroy) {
        blockers.push_back(
            {name, most, [=] { fill(make, most); }, [=] { destroy(take(&objects)); }, [=] { empty(destroy); }});
    }
    /// Adds a blocker that makes one call, at most `most` times a kernel.
    void add(
        const char* name, int most, std::function<void()> call, std::function<void()> prepare = [] {}) {
        blockers.push_back({name, most, prepare, call});
    }
    /// Takes the last element. Throws if there is none: the blocker's number of calls is then too great.
    template <class T>
    static T take(std::vector<T>* from) {
        if (from->empty()) {
            throw std::runtime_error("nothing is left to make this call with");
        }
        T last = from->back();
        from->pop_back();
        return last;
    }
    /// Creates `count` objects before the kernel.
    void fill(const std::function<void*()>& make, int count) {
        for (int i = 0; i < count; ++i) {
            objects.push_back(make());
        }
    }
    /// Destroys all objects that are left after the kernel.
    void empty(const std::function<void(void*)>& destroy) {
        while (!objects.empty()) {
            destroy(take(&objects));
        }
    }
    /// Fills `module_code`, once.
    void compile_module();

    cudaStream_t own = nullptr;    ///< the kernel's stream if that is not the default stream
    cudaStream_t probe = nullptr;  ///< stream of the steps
    cudaStream_t other = nullptr;  ///< stream of the blockers
    char* device = nullptr;        ///< 8 MiB; the upper half is the steps'
    char* pinned = nullptr;        ///< 8 MiB; the upper half is the steps'
    /// Host memory that is not pinned; `cudaHostRegister` pins parts.
    std::vector<char> pageable = std::vector<char>(8 * mib);
    /// Kernels that were never launched; each is taken once.
    std::vector<const void*> fresh = kernels_of(std::make_integer_sequence<int, 160>{});
    std::vector<char> module_code;  ///< empty until `compile_module`
    std::vector<void*> objects;     ///< objects that a blocker creates or destroys
    cudaGraph_t graph = nullptr;    ///< four launches of `loaded`
    cudaGraphExec_t instance = nullptr;
    std::size_t limit = 0;          ///< the current value of the limit that a blocker sets
    CUcontext context = nullptr;    ///< that the threads of blockers and steps make current
    std::vector<blocker> blockers;  ///< in the order in which they run
};

inline bench::bench() {
    check(cudaSetDevice(0), "cudaSetDevice");
    // Non-blocking: the default stream, on which the kernel runs, would make them wait.
    for (cudaStream_t* stream : {&own, &probe, &other}) {
        check(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    }
    check(cudaMalloc(&device, 8 * mib), "cudaMalloc");
    check(cudaHostAlloc(&pinned, 8 * mib, cudaHostAllocDefault), "cudaHostAlloc");
    check(cuCtxGetCurrent(&context), "cuCtxGetCurrent");
    // All work that the steps queue runs once here, so that nothing has to be loaded for it later.
    loaded<<<1, 1, 0, probe>>>(device);
    check(cudaGetLastError(), "launch");
    check(cudaMemsetAsync(device, 0, mib, probe), "cudaMemsetAsync");
    check(cudaMemcpyAsync(device, pinned, mib, cudaMemcpyHostToDevice, probe), "cudaMemcpyAsync");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    check(cudaStreamBeginCapture(other, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    for (int i = 0; i < 4; ++i) {
        loaded<<<1, 1, 0, other>>>(device);
    }
    check(cudaStreamEndCapture(other, &graph), "cudaStreamEndCapture");
    check(cudaGraphInstantiate(&instance, graph, 0), "cudaGraphInstantiate");
    add("none", 1, [] {});
    add_memory();
    add_launches();
    add_others();
}

inline void bench::add_memory() {
    const auto make = maker<void*, std::size_t>("cudaMalloc", cudaMalloc, 4 * mib);
    const auto free = destroyer<void*>("cudaFree", cudaFree);
    add_making("cudaMalloc", 128, make, free);
    add_destroying("cudaFree", 64, make, free);
    const auto queue = maker<void*, std::size_t, cudaStream_t>("cudaMallocAsync", cudaMallocAsync, mib, other);
    const std::function<void(void*)> queue_free = [=](void* p) { check(cudaFreeAsync(p, other), "cudaFreeAsync"); };
    add_making("cudaMallocAsync", 256, queue, queue_free);
    add_destroying("cudaFreeAsync", 256, queue, queue_free);
    const auto pin = maker<void*, std::size_t>("cudaMallocHost", cudaMallocHost, mib);
    const auto unpin = destroyer<void*>("cudaFreeHost", cudaFreeHost);
    add_making("cudaMallocHost", 64, pin, unpin);
    add_destroying("cudaFreeHost", 64, pin, unpin);
    add_making("cudaHostAlloc", 64,
               maker<void*, std::size_t, unsigned>("cudaHostAlloc", cudaHostAlloc, mib, cudaHostAllocMapped), unpin);
    constexpr std::size_t piece = 64 << 10;
    // Another part of the buffer for each object, from a page's start on; the first one is left out, since the buffer
    // may begin inside a page.
    const std::function<void*()> enlist = [=] {
        char* at = pageable.data() + piece * (1 + objects.size());
        at -= reinterpret_cast<std::uintptr_t>(at) % 4096;
        check(cudaHostRegister(at, piece, cudaHostRegisterDefault), "cudaHostRegister");
        return at;
    };
    const auto delist = destroyer<void*>("cudaHostUnregister", cudaHostUnregister);
    add_making("cudaHostRegister", 64, enlist, delist);
    add_destroying("cudaHostUnregister", 64, enlist, delist);
    add("cudaMallocManaged with its cudaFree", unlimited, [] {
        void* managed = nullptr;
        check(cudaMallocManaged(&managed, 16 * mib, cudaMemAttachGlobal), "cudaMallocManaged");
        check(cudaFree(managed), "cudaFree of managed memory");
    });
}

inline void bench::add_launches() {
    // The kernel is taken from the list: it was never launched, so that this launch loads it.
    const auto launch = [=](cudaStream_t stream, bool cooperative) {
        int* nothing = nullptr;
        void* arguments[] = {&nothing};
        const void* kernel = take(&fresh);
        if (cooperative) {
            check(cudaLaunchCooperativeKernel(kernel, dim3(1), dim3(1), arguments, 0, stream),
                  "cudaLaunchCooperativeKernel");
        } else {
            check(cudaLaunchKernel(kernel, dim3(1), dim3(1), arguments, 0, stream), "cudaLaunchKernel");
        }
    };
    add("first launch", 4, [=] { launch(other, false); });
    add("first launch behind the kernel", 4, [=] { launch(nullptr, false); });
    add("first cooperative launch", 4, [=] { launch(other, true); });
    add("cudaFuncSetAttribute of a kernel not loaded", 4, [=] {
        check(cudaFuncSetAttribute(take(&fresh), cudaFuncAttributePreferredSharedMemoryCarveout, 50),
              "cudaFuncSetAttribute");
    });
    const std::function<void*()> load = [=] {
        CUmodule loaded_module{};
        check(cuModuleLoadData(&loaded_module, module_code.data()), "cuModuleLoadData");
        return static_cast<void*>(loaded_module);
    };
    add_making("cuModuleLoadData", 64, load,
               [](void* made) { check(cuModuleUnload(static_cast<CUmodule>(made)), "cuModuleUnload"); });
    // Compiled before the kernel: only the loading is the blocker.
    blockers.back().prepare = [=] { compile_module(); };
    add_making(
        "cudaGraphInstantiate", 64,
        maker<cudaGraphExec_t, cudaGraph_t, unsigned long long>("cudaGraphInstantiate", cudaGraphInstantiate, graph, 0),
        destroyer<cudaGraphExec_t>("cudaGraphExecDestroy", cudaGraphExecDestroy));
    add("cudaGraphLaunch", 256, [=] { check(cudaGraphLaunch(instance, other), "cudaGraphLaunch"); });
}

/// Compiles a module once, so that the blocker only loads it.
inline void bench::compile_module() {
    if (!module_code.empty()) {
        return;
    }
    std::string text = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }\n";
    CUlinkState linker{};
    void* code = nullptr;
    std::size_t bytes = 0;
    check(cuLinkCreate(0, nullptr, nullptr, &linker), "cuLinkCreate");
    check(cuLinkAddData(linker, CU_JIT_INPUT_PTX, text.data(), text.size() + 1, "text", 0, nullptr, nullptr),
          "cuLinkAddData");
    check(cuLinkComplete(linker, &code, &bytes), "cuLinkComplete");
    module_code.assign(static_cast<char*>(code), static_cast<char*>(code) + bytes);
    check(cuLinkDestroy(linker), "cuLinkDestroy");
}

inline void bench::add_others() {
    const auto stream = maker<cudaStream_t>("cudaStreamCreate", cudaStreamCreate);
    const auto end_stream = destroyer<cudaStream_t>("cudaStreamDestroy", cudaStreamDestroy);
    add_making("cudaStreamCreate", 64, stream, end_stream);
    add_destroying("cudaStreamDestroy", 64, stream, end_stream);
    add("cudaEventCreate, cudaEventDestroy", unlimited, [] {
        cudaEvent_t event{};
        check(cudaEventCreate(&event), "cudaEventCreate");
        check(cudaEventDestroy(event), "cudaEventDestroy");
    });
    add("cudaDeviceSynchronize", unlimited, [] { check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); });
    add("cudaStreamSynchronize", unlimited, [] { check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize"); });
    // Into the lower half of `device`; the steps use the upper one.
    const auto copy = [=](const void* from) {
        check(cudaMemcpy(device, from, mib, cudaMemcpyHostToDevice), "cudaMemcpy");
    };
    add("cudaMemcpy pageable", unlimited, [=] { copy(pageable.data()); });
    add("cudaMemcpy pageable, another stream", unlimited, [=] { copy(pageable.data()); });
    // With the kernel on a stream of its own, a call on the default stream does not wait for it.
    blockers.back().apart = true;
    add("cudaMemcpy pinned", unlimited, [=] { copy(pinned); });
    add("cudaMemcpyAsync pageable", unlimited, [=] {
        check(cudaMemcpyAsync(device, pageable.data(), mib, cudaMemcpyHostToDevice, other), "cudaMemcpyAsync");
    });
    add("cudaMemset", unlimited, [=] { check(cudaMemset(device, 0, mib), "cudaMemset"); });
    add("cudaMemGetInfo", unlimited, [] {
        std::size_t free = 0;
        std::size_t total = 0;
        check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    });
    for (const auto& [name, which] : {std::pair{"cudaDeviceSetLimit printf buffer", cudaLimitPrintfFifoSize},
                                      std::pair{"cudaDeviceSetLimit malloc heap", cudaLimitMallocHeapSize}}) {
        const cudaLimit each = which;
        // Sets the limit to twice its value, back, and once more to the value that it has: another value and the same
        // one are different cases.
        add(
            name, unlimited,
            [=] {
                check(cudaDeviceSetLimit(each, limit * 2), "cudaDeviceSetLimit to another value");
                check(cudaDeviceSetLimit(each, limit), "cudaDeviceSetLimit");
                check(cudaDeviceSetLimit(each, limit), "cudaDeviceSetLimit to the same value");
            },
            [=] { check(cudaDeviceGetLimit(&limit, each), "cudaDeviceGetLimit"); });
    }
    add(
        "cudaDeviceEnablePeerAccess", unlimited,
        [] {
            check(cudaDeviceEnablePeerAccess(1, 0), "cudaDeviceEnablePeerAccess");
            check(cudaDeviceDisablePeerAccess(1), "cudaDeviceDisablePeerAccess");
        },
        // Throws before the kernel runs if there is no second GPU.
        [] {
            int possible = 0;
            check(cudaDeviceCanAccessPeer(&possible, 0, 1), "cudaDeviceCanAccessPeer");
        });
}

}  // namespace driver_locks
