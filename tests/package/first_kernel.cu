// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The ways in which a program's first kernel that allocates reaches a GPU. Linked with orchard::replace_malloc, and run
// once for each way, since a process has only one first kernel. Without an argument, prints the ways. Exit codes: 0
// right; 1 wrong; 77 there is no GPU.

#include <cooperative_groups.h>
#include <cuda.h>
#include <dlfcn.h>

#include <orchard/orchard.h>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <heap_copy.cuh>

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

/// Returns the shared library; null if it cannot be loaded, or was loaded too early. FIRST_KERNEL_IS_LINKED: the
/// program is linked with the library, and `dlopen` returns it. Otherwise this call loads it.
void* shared_library() {
    const bool is_there = dlopen(FIRST_KERNEL_LIBRARY, RTLD_NOW | RTLD_NOLOAD) != nullptr;
    if (is_there != (FIRST_KERNEL_IS_LINKED != 0)) {
        std::fprintf(stderr, "the library is %s before it is asked for\n", is_there ? "loaded" : "not loaded");
        return nullptr;
    }
    void* const loaded = dlopen(FIRST_KERNEL_LIBRARY, RTLD_NOW);
    if (loaded == nullptr) {
        std::fprintf(stderr, "%s\n", dlerror());
    }
    return loaded;
}

/// Returns a function of the shared library; null if there is none.
template <class Function>
Function* of_library(const char* name) {
    void* const loaded = shared_library();
    void* const found = loaded == nullptr ? nullptr : dlsym(loaded, name);
    if (loaded != nullptr && found == nullptr) {
        std::fprintf(stderr, "the library has no function %s\n", name);
    }
    return reinterpret_cast<Function*>(found);
}

/// A shared library with kernels and a heap of its own, after a launch of the program.
bool library() {
    if (!launch()) {
        return false;
    }
    auto* const run = of_library<int()>("allocate_in_library");
    if (run == nullptr || run() != 1) {
        std::fprintf(stderr, "the library's kernel has not got its blocks\n");
        return false;
    }
    return launch();
}

/// Frees a block of one copy of Orchard in the other, which counts the call and changes nothing.
bool cross(const heap_copy& owner, const heap_copy& other, const char* what) {
    constexpr unsigned value = 0x5eed;
    const auto live = [](const heap_copy& copy) { return copy.statistic("allocations") - copy.statistic("frees"); };
    const auto invalid = [](const heap_copy& copy) { return copy.statistic("invalid_frees"); };
    if (!owner.churn() || !other.churn()) {
        std::fprintf(stderr, "%s: a copy has no memory: %s\n", what, orchard_last_error());
        return false;
    }
    const long before[] = {live(owner), invalid(owner), live(other), invalid(other)};
    unsigned* const block = owner.make(value);
    if (block == nullptr || !other.free(block)) {
        std::fprintf(stderr, "%s: there is no block, or its free has failed\n", what);
        return false;
    }
    const long after[] = {live(owner), invalid(owner), live(other), invalid(other)};
    if (after[0] != before[0] + 1 || after[1] != before[1] || after[2] != before[2] || after[3] != before[3] + 1) {
        std::fprintf(stderr,
                     "%s: live blocks and invalid frees of the owner %ld, %ld and of the other copy %ld, %ld; before "
                     "%ld, %ld and %ld, %ld\n",
                     what, after[0], after[1], after[2], after[3], before[0], before[1], before[2], before[3]);
        return false;
    }
    const bool kept = owner.holds(block, value) && owner.churn() && other.churn() && owner.holds(block, value);
    if (!kept || !owner.free(block) || live(owner) != before[0] || invalid(owner) != before[1]) {
        std::fprintf(stderr, "%s: the block has changed, or its owner cannot free it any more\n", what);
        return false;
    }
    if (!owner.validate() || !other.validate()) {
        std::fprintf(stderr, "%s: a heap is not valid: %s\n", what, orchard_last_error());
        return false;
    }
    return true;
}

/// The program and the library have a copy of Orchard each; blocks of one are foreign to the other.
bool copies() {
    if (!launch()) {
        return false;
    }
    auto* const copy_of_library = of_library<const heap_copy*()>("copy_of_library");
    return copy_of_library != nullptr && cross(own_copy, *copy_of_library(), "a block of the program") &&
           cross(*copy_of_library(), own_copy, "a block of the library");
}

/// Returns a function of the driver; null if there is none. The program is not linked with libcuda, so that it starts
/// where there is no driver.
template <class Function>
Function* of_driver(const char* name) {
    static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
    return driver == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(driver, name));
}

/// A module that the program loads by the driver's functions, and its kernel.
class loaded_module {
public:
    /// Loads the module, and returns whether all that is needed was found.
    bool load() {
        auto* const load = of_driver<decltype(cuModuleLoad)>("cuModuleLoad");
        auto* const find = of_driver<decltype(cuModuleGetFunction)>("cuModuleGetFunction");
        auto* const find_symbol = of_driver<decltype(cuModuleGetGlobal_v2)>("cuModuleGetGlobal_v2");
        launch_ = of_driver<decltype(cuLaunchKernel)>("cuLaunchKernel");
        unload_ = of_driver<decltype(cuModuleUnload)>("cuModuleUnload");
        if (load == nullptr || find == nullptr || find_symbol == nullptr || launch_ == nullptr || unload_ == nullptr) {
            std::fprintf(stderr, "the driver lacks a function\n");
            return false;
        }
        const CUresult loaded = load(&module_, FIRST_KERNEL_MODULE);
        const CUresult found = loaded == CUDA_SUCCESS ? find(&kernel_, module_, "allocate_in_module") : loaded;
        const CUresult symbol =
            found == CUDA_SUCCESS ? find_symbol(&root_, &root_bytes_, module_, "orchard_root") : found;
        if (symbol != CUDA_SUCCESS) {
            std::fprintf(stderr, "%s: error %d of the driver\n", FIRST_KERNEL_MODULE, static_cast<int>(symbol));
        }
        return symbol == CUDA_SUCCESS;
    }

    /// Binds the module to a heap, or to none. `bytes`: what the caller takes for the size of the symbol.
    int bind(orchard_heap* heap, size_t bytes) const {
        return orchard_heap_bind(heap, reinterpret_cast<void*>(root_), bytes);  // NOLINT(performance-no-int-to-ptr)
    }
    [[nodiscard]] size_t root_bytes() const { return root_bytes_; }

    /// Launches the kernel, and returns whether `expected` threads have got a block.
    [[nodiscard]] bool gets(unsigned expected) const {
        unsigned* right = counter();
        void* arguments[] = {&right};
        const CUresult launched = launch_(kernel_, blocks, 1, 1, threads, 1, 1, 0, nullptr, arguments, nullptr);
        if (launched != CUDA_SUCCESS) {
            std::fprintf(stderr, "cuLaunchKernel: error %d\n", static_cast<int>(launched));
        }
        return launched == CUDA_SUCCESS && counts(right, expected);
    }

    [[nodiscard]] bool unload() const { return unload_(module_) == CUDA_SUCCESS; }

private:
    decltype(cuLaunchKernel)* launch_ = nullptr;
    decltype(cuModuleUnload)* unload_ = nullptr;
    CUmodule module_ = nullptr;
    CUfunction kernel_ = nullptr;
    CUdeviceptr root_ = 0;
    size_t root_bytes_ = 0;
};

/// The kernels of a module that the program loads itself get memory while the module is bound to a heap, and null
/// before and after that. A heap that ends while the module is bound to it leaves the module; one that ends after the
/// module was unloaded changes nothing.
bool driver_module() {
    loaded_module mine;
    if (!launch() || !mine.load()) {  // the launch makes the default heap, and a context
        return false;
    }
    orchard_heap* const heap = orchard_default_heap();
    const auto says = [](bool right, const char* what) {
        if (!right) {
            std::fprintf(stderr, "module: %s: %s\n", what, orchard_last_error());
        }
        return right;
    };
    orchard_heap* first = nullptr;
    orchard_heap* second = nullptr;
    const auto ends = [](orchard_heap* of) {
        orchard_heap_destroy(of);
        return true;
    };
    return says(mine.gets(0), "before it is bound") &&
           says(mine.bind(heap, mine.root_bytes() - 1) == ORCHARD_INVALID_ARGUMENT, "a symbol of another size") &&
           says(mine.gets(0), "after a bind that failed") &&
           says(mine.bind(heap, mine.root_bytes()) == ORCHARD_OK, "orchard_heap_bind") &&
           says(mine.gets(all), "after it was bound") &&
           says(mine.bind(nullptr, mine.root_bytes()) == ORCHARD_OK, "orchard_heap_bind without a heap") &&
           says(mine.gets(0), "after the heap was taken away") &&
           says(orchard_heap_validate(heap) == ORCHARD_OK, "orchard_heap_validate") &&
           says(orchard_heap_create("capacity=64MiB", &first) == ORCHARD_OK, "orchard_heap_create") &&
           says(orchard_heap_create("capacity=64MiB", &second) == ORCHARD_OK, "orchard_heap_create") &&
           says(mine.bind(first, mine.root_bytes()) == ORCHARD_OK, "orchard_heap_bind to a heap") &&
           says(mine.gets(all), "bound to a heap of the program") && ends(first) &&
           says(mine.gets(0), "after that heap has ended") &&
           says(mine.bind(second, mine.root_bytes()) == ORCHARD_OK, "orchard_heap_bind to another heap") &&
           says(mine.gets(all), "bound to another heap") && says(mine.unload(), "cuModuleUnload") && ends(second) &&
           says(cudaDeviceSynchronize() == cudaSuccess, "after the heap of an unloaded module has ended") && launch();
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
                        {"copies", copies},
                        {"module", driver_module},
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
