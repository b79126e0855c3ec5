// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The symbol of a module that is compiled from another version of Orchard, or that is no such symbol, is refused, and
/// stays as it is. On a GPU; nothing in a build without CUDA.

#include <gtest/gtest.h>

#if defined(ORCHARD_HAS_CUDA) && ORCHARD_HAS_CUDA

#include <cuda_runtime_api.h>

#include <string>

#include "runtime/default_heap/heap_root.cuh"
#include "runtime/include/orchard/orchard.h"

namespace {

/// A module's symbol: device memory with these contents.
class bind_root_test : public ::testing::Test {
protected:
    void SetUp() override {
        int gpus = 0;
        if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
            (void)cudaGetLastError();
            GTEST_SKIP() << "no GPU";
        }
        ASSERT_EQ(orchard_heap_create("device=cuda capacity=64MiB", &heap_), ORCHARD_OK) << orchard_last_error();
        ASSERT_EQ(cudaMalloc(&symbol_, sizeof(orchard::heap_root)), cudaSuccess);
    }
    void TearDown() override {
        orchard_heap_destroy(heap_);
        cudaFree(symbol_);
    }
    void write(const orchard::heap_root& root) {
        ASSERT_EQ(cudaMemcpy(symbol_, &root, sizeof(root), cudaMemcpyHostToDevice), cudaSuccess);
    }
    [[nodiscard]] orchard::heap_root read() const {
        orchard::heap_root root{};
        EXPECT_EQ(cudaMemcpy(&root, symbol_, sizeof(root), cudaMemcpyDeviceToHost), cudaSuccess);
        return root;
    }

    orchard_heap* heap_ = nullptr;
    void* symbol_ = nullptr;
};

constexpr orchard::heap_root fresh{orchard::heap_root::current_abi, sizeof(orchard::heap_root), {}};

TEST_F(bind_root_test, gives_a_module_the_heap_and_takes_it_away) {
    write(fresh);
    ASSERT_EQ(orchard_heap_bind(heap_, symbol_, sizeof(orchard::heap_root)), ORCHARD_OK) << orchard_last_error();
    orchard::heap_ref expected;
    ASSERT_EQ(orchard_heap_ref(heap_, &expected, sizeof(expected)), ORCHARD_OK) << orchard_last_error();
    const orchard::heap_root bound = read();
    EXPECT_TRUE(bound.is_bound());
    EXPECT_EQ(bound.heap().view().state, expected.view().state);
    ASSERT_EQ(orchard_heap_bind(nullptr, symbol_, sizeof(orchard::heap_root)), ORCHARD_OK) << orchard_last_error();
    EXPECT_FALSE(read().is_bound());
}

TEST_F(bind_root_test, refuses_another_layout) {
    orchard::heap_root other = fresh;
    other.abi = orchard::heap_root::current_abi + 1;
    write(other);
    EXPECT_EQ(orchard_heap_bind(heap_, symbol_, sizeof(orchard::heap_root)), ORCHARD_FAILED_PRECONDITION);
    EXPECT_NE(std::string(orchard_last_error()).find("layout 2"), std::string::npos) << orchard_last_error();
    EXPECT_FALSE(read().is_bound());
}

TEST_F(bind_root_test, refuses_another_size) {
    orchard::heap_root other = fresh;
    other.root_bytes -= 16;
    write(other);
    EXPECT_EQ(orchard_heap_bind(heap_, symbol_, sizeof(orchard::heap_root)), ORCHARD_FAILED_PRECONDITION);
    EXPECT_EQ(orchard_heap_bind(heap_, symbol_, sizeof(orchard::heap_root) - 16), ORCHARD_INVALID_ARGUMENT);
    EXPECT_EQ(orchard_heap_bind(heap_, nullptr, sizeof(orchard::heap_root)), ORCHARD_INVALID_ARGUMENT);
    EXPECT_FALSE(read().is_bound());
}

}  // namespace

#endif
