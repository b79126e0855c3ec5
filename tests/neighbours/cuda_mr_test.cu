// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Heaps in memory of `cuda::mr`, as the toolkit's CCCL has it. Nothing in a build without CUDA.

#include <gtest/gtest.h>

#if defined(ORCHARD_HAS_CUDA) && ORCHARD_HAS_CUDA

// Up to CCCL 3.1 the header is empty without this.
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#include <cuda_runtime_api.h>

#include <cuda/memory_resource>
#include <cuda/version>

#include <orchard/neighbours/memory_resource.hpp>

#include <cstddef>
#include <new>

#include "runtime/machine/machine_info.hpp"

namespace orchard::test {

/// `cudaMalloc` as a resource of `cuda::mr`, with the names of both of its forms.
struct cuda_malloc_resource {
    int* live;

    void* allocate(std::size_t bytes, std::size_t) {
        void* memory = nullptr;
        if (cudaMalloc(&memory, bytes) != cudaSuccess) {
            (void)cudaGetLastError();
            throw std::bad_alloc();
        }
        ++*live;
        return memory;
    }
    void deallocate(void* memory, std::size_t, std::size_t) noexcept {
        --*live;
        cudaFree(memory);
    }
    void* allocate_sync(std::size_t bytes, std::size_t alignment) { return allocate(bytes, alignment); }
    void deallocate_sync(void* memory, std::size_t bytes, std::size_t alignment) noexcept {
        deallocate(memory, bytes, alignment);
    }
    bool operator==(const cuda_malloc_resource& other) const { return live == other.live; }
    bool operator!=(const cuda_malloc_resource& other) const { return live != other.live; }
    friend void get_property(const cuda_malloc_resource&, cuda::mr::device_accessible) noexcept {}
};

namespace {

#if CCCL_VERSION >= 3001000
using resource_ref = cuda::mr::synchronous_resource_ref<cuda::mr::device_accessible>;
static_assert(synchronous_resource<resource_ref>);
#else
using resource_ref = cuda::mr::resource_ref<cuda::mr::device_accessible>;
static_assert(plain_resource<resource_ref>);
#endif

TEST(cuda_mr, a_heap_lies_in_memory_of_a_resource_ref) {
    const auto choice = choose_device(device_option::cuda);
    if (!choice.ok()) {
        GTEST_SKIP() << "needs a GPU: " << choice.status().message();
    }
    int live = 0;
    cuda_malloc_resource resource{&live};
    {
        auto made =
            create_in_resource(resource_ref{resource}, std::uint64_t{64} << 20, {.device = device_option::cuda});
        ASSERT_TRUE(made.ok()) << made.status();
        EXPECT_EQ(live, 1);
        const auto block = (*made)->allocate_on_host(1000);
        ASSERT_TRUE(block.ok()) << block.status();
        EXPECT_GE(*block, made->memory());
        EXPECT_TRUE((*made)->free_on_host(*block).ok());
        EXPECT_TRUE((*made)->validate().ok());
    }
    EXPECT_EQ(live, 0);
}

}  // namespace
}  // namespace orchard::test

#endif
