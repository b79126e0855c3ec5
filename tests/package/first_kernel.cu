// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The ways in which a program's first kernel that allocates reaches a GPU. Linked with orchard::replace_malloc, and run
// once for each way, since a process has only one first kernel. Without an argument, prints the ways. Exit codes: 0
// right; 1 wrong; 77 there is no GPU.

#include <cooperative_groups.h>
#include <dlfcn.h>

#include <orchard/orchard.h>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr unsigned blocks = 16;
constexpr unsigned threads = 256;
constexpr unsigned all = blocks * threads;

/// Counts the threads whose block of 16 to 2,056 B keeps what is written to it.
__global__ void allocate(unsigned* right) {
    auto* const p = static_cast<volatile unsigned*>(malloc(16 + threadIdx.x * 8));
    if (p != nullptr) {
        *p = threadIdx.x;
        atomicAdd(right, *p == threadIdx.x ? 1u : 0u);
        free(const_cast<unsigned*>(p));
    }
}

/// The same with 1 MiB for each thread.
__global__ void allocate_much(unsigned* right) {
    void* const p = malloc(1 << 20);
    atomicAdd(right, p != nullptr ? 1u : 0u);
    free(p);
}

__global__ void allocate_after_barrier(unsigned* right) {
    cooperative_groups::this_grid().sync();
    auto* const p = new unsigned(1);
    atomicAdd(right, p != nullptr ? *p : 0u);
    delete p;
}

__global__ void free_foreign(void* memory) { free(memory); }

/// Allocates and frees until `cycles` cycles of the multiprocessor have passed.
__global__ void keep_busy(long long cycles) {
    const long long begin = clock64();
    while (clock64() - begin < cycles) {
        free(malloc(100));
    }
}

/// Returns a counter in the memory of the current GPU, 0.
unsigned* counter() {
    unsigned* right = nullptr;
    cudaMalloc(&right, sizeof(*right));
    cudaMemset(right, 0, sizeof(*right));
    cudaDeviceSynchronize();
    return right;
}

/// Waits for the current GPU, and returns whether the counter is `expected` and no call failed.
bool counts(const unsigned* right, unsigned expected = all) {
    unsigned found = 0;
    const cudaError_t error = cudaDeviceSynchronize();
    cudaMemcpy(&found, right, sizeof(found), cudaMemcpyDeviceToHost);
    const cudaError_t last = cudaGetLastError();
    if (found == expected && error == cudaSuccess && last == cudaSuccess) {
        return true;
    }
    std::fprintf(stderr, "%u of %u blocks are right; %s; %s; heap: %s\n", found, expected, cudaGetErrorString(error),
                 cudaGetErrorString(last), orchard_default_heap() != nullptr ? "there" : orchard_last_error());
    return false;
}

bool launch() {
    unsigned* const right = counter();
    allocate<<<blocks, threads>>>(right);
    return counts(right);
}

bool cooperative() {
    unsigned* right = counter();
    void* arguments[] = {&right};
    cudaLaunchCooperativeKernel(reinterpret_cast<void*>(allocate_after_barrier), dim3(blocks), dim3(threads), arguments,
                                0, nullptr);
    return counts(right);
}

bool with_attributes() {
    unsigned* const right = counter();
    cudaLaunchConfig_t shape = {};
    shape.gridDim = blocks;
    shape.blockDim = threads;
    cudaLaunchKernelEx(&shape, allocate, right);
    return counts(right);
}

/// The capture of a launch makes no heap, the launch of the graph does.
bool graph() {
    unsigned* const right = counter();
    cudaStream_t stream = nullptr;
    cudaGraph_t captured = nullptr;
    cudaGraphExec_t launched = nullptr;
    cudaStreamCreate(&stream);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    allocate<<<blocks, threads, 0, stream>>>(right);
    cudaStreamEndCapture(stream, &captured);
    if (orchard_default_heap() != nullptr) {
        std::fprintf(stderr, "a captured launch has made a heap\n");
        return false;
    }
    cudaGraphInstantiate(&launched, captured, 0);
    cudaGraphLaunch(launched, stream);
    return counts(right);
}

/// A launch on one stream makes the heap, and the heap grows, while another stream is captured in the mode in which
/// CUDA forbids most calls of all threads. The capture goes on.
bool beside_capture() {
    unsigned* const right = counter();
    unsigned* const captured_right = counter();
    cudaStream_t captured_stream = nullptr;
    cudaStream_t other = nullptr;
    cudaGraph_t captured = nullptr;
    cudaGraphExec_t launched = nullptr;
    cudaStreamCreate(&captured_stream);
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    cudaStreamBeginCapture(captured_stream, cudaStreamCaptureModeGlobal);
    allocate<<<blocks, threads, 0, captured_stream>>>(captured_right);
    allocate<<<blocks, threads, 0, other>>>(right);
    allocate_much<<<64, threads, 0, other>>>(right);
    const cudaError_t ended = cudaStreamEndCapture(captured_stream, &captured);
    if (ended != cudaSuccess) {
        std::fprintf(stderr, "the capture: %s\n", cudaGetErrorString(ended));
        return false;
    }
    cudaGraphInstantiate(&launched, captured, 0);
    cudaGraphLaunch(launched, captured_stream);
    return counts(right, all + 64 * threads) && counts(captured_right);
}

/// A shared library with kernels and a heap of its own. The program is linked with it; `dlopen` returns it.
bool library() {
    if (!launch()) {
        return false;
    }
    void* const loaded = dlopen(FIRST_KERNEL_LIBRARY, RTLD_NOW);
    if (loaded == nullptr) {
        std::fprintf(stderr, "%s\n", dlerror());
        return false;
    }
    auto* const run = reinterpret_cast<int (*)()>(dlsym(loaded, "allocate_in_library"));
    return run != nullptr && run() == 1;
}

/// Four host threads for each GPU, which all launch first.
bool many_threads() {
    int gpus = 0;
    cudaGetDeviceCount(&gpus);
    std::atomic<int> wrong{0};
    std::vector<std::thread> running;
    for (int i = 0; i < 4 * gpus; ++i) {
        running.emplace_back([&, i] {
            cudaSetDevice(i % gpus);
            unsigned* const right = counter();
            allocate<<<blocks, threads>>>(right);
            wrong += counts(right) ? 0 : 1;
        });
    }
    for (std::thread& t : running) {
        t.join();
    }
    for (int gpu = 0; gpu < gpus; ++gpu) {
        cudaSetDevice(gpu);
        wrong += orchard_heap_validate(orchard_default_heap()) == ORCHARD_OK ? 0 : 1;
    }
    return wrong == 0;
}

/// ORCHARD_INIT=manual: kernels get null until `orchard_init`, and again after `orchard_shutdown`.
bool manual() {
    unsigned* const right = counter();
    allocate<<<blocks, threads>>>(right);
    if (!counts(right, 0) || orchard_default_heap() != nullptr ||
        std::strstr(orchard_last_error(), "no default heap") == nullptr) {
        std::fprintf(stderr, "before orchard_init: %s\n", orchard_last_error());
        return false;
    }
    if (orchard_init("capacity=1GiB") != ORCHARD_OK) {
        std::fprintf(stderr, "%s\n", orchard_last_error());
        return false;
    }
    allocate<<<blocks, threads>>>(right);
    if (!counts(right) || orchard_shutdown() != ORCHARD_OK) {
        return false;
    }
    allocate<<<blocks, threads>>>(right);
    return counts(right);
}

/// A free of memory that is not of the heap is counted, and changes nothing.
bool foreign() {
    unsigned* const right = counter();
    allocate<<<blocks, threads>>>(right);
    free_foreign<<<1, 32>>>(right);
    if (!counts(right)) {
        return false;
    }
    const char* const statistics = orchard_heap_stats(orchard_default_heap());
    const char* const found = statistics == nullptr ? nullptr : std::strstr(statistics, "\"invalid_frees\"");
    if (found == nullptr || std::atoi(std::strchr(found, ':') + 1) != 32) {
        std::fprintf(stderr, "32 invalid frees are not counted: %s\n", statistics);
        return false;
    }
    return orchard_heap_validate(orchard_default_heap()) == ORCHARD_OK;
}

/// The reset of a GPU ends its heap; the next launch makes one again.
bool reset() {
    if (!launch() || cudaDeviceReset() != cudaSuccess || !launch()) {
        return false;
    }
    return cudaDeviceReset() == cudaSuccess;
}

/// `main` returns while a kernel allocates. The kernel ends by itself.
bool exit_beside_kernel() {
    keep_busy<<<blocks, threads>>>(2'000'000'000);
    return true;
}

struct way {
    const char* name;
    bool (*run)();
};
constexpr way ways[] = {{"launch", launch},
                        {"cooperative", cooperative},
                        {"with_attributes", with_attributes},
                        {"graph", graph},
                        {"beside_capture", beside_capture},
                        {"library", library},
                        {"threads", many_threads},
                        {"manual", manual},
                        {"foreign", foreign},
                        {"reset", reset},
                        {"exit", exit_beside_kernel}};

}  // namespace

int main(int count, char** arguments) {
    const std::string wanted = count == 2 ? arguments[1] : "";
    int gpus = 0;
    for (const way& w : ways) {
        if (wanted.empty()) {
            std::puts(w.name);
        } else if (wanted == w.name) {
            if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
                std::puts("first_kernel: no GPU, not run");
                return 77;
            }
            return w.run() ? 0 : 1;
        }
    }
    return wanted.empty() ? 0 : 1;
}
