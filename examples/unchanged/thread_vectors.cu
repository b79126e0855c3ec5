// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A vector for each thread: 16,384 threads append between 1 and 512 numbers to an array that doubles its capacity by
/// `malloc`, a copy and `free`, and then add the numbers up. The arrays have 16 B to 2 KiB.

#include "examples/unchanged/measure.hpp"

namespace {

constexpr unsigned threads = 16384;

/// As `std::vector`, as far as kernels need it here.
struct growing_array {
    unsigned* values = nullptr;
    unsigned length = 0;
    unsigned capacity = 0;

    __device__ bool append(unsigned value) {
        if (length == capacity) {
            const unsigned larger = capacity == 0 ? 4 : 2 * capacity;
            auto* const moved = static_cast<unsigned*>(malloc(larger * sizeof(unsigned)));
            if (moved == nullptr) {
                return false;
            }
            for (unsigned i = 0; i < length; ++i) {
                moved[i] = values[i];
            }
            free(values);
            values = moved;
            capacity = larger;
        }
        values[length++] = value;
        return true;
    }
    __device__ ~growing_array() { free(values); }
};

__global__ void fill_and_add(unchanged::counts* counts) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    growing_array mine;
    const unsigned wanted = 1 + i * 2654435761u % 512;
    for (unsigned n = 0; n < wanted; ++n) {
        if (!mine.append(i ^ n)) {
            atomicAdd(&counts->nulls, 1ull);
            return;
        }
    }
    unsigned long long sum = 0;
    for (unsigned n = 0; n < mine.length; ++n) {
        sum += mine.values[n];
    }
    atomicAdd(&counts->result, sum);
}

}  // namespace

int main(int count, char** arguments) {
    return unchanged::run("thread_vectors", count, arguments, [](unchanged::counts* counts) {
        const unchanged::phase now("compute");
        fill_and_add<<<threads / 256, 256>>>(counts);
    });
}
