// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A Monte Carlo simulation with secondaries: 131,072 threads follow one particle each. At each of up to 64 steps a
/// particle loses energy, and may leave a secondary, which waits in a list of the thread until its turn comes. The
/// numbers of particles and their energies depend on a random number of each particle, not on the order of threads.

#include "examples/unchanged/measure.hpp"

namespace {

constexpr unsigned threads = 1u << 17;
constexpr unsigned max_steps = 64;

struct particle {
    particle* next;
    unsigned energy;
    unsigned random;
};

__device__ unsigned next_random(unsigned& state) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

__global__ void follow(unchanged::counts* counts) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    auto* waiting = new particle;
    if (waiting == nullptr) {
        atomicAdd(&counts->nulls, 1ull);
        return;
    }
    *waiting = {nullptr, 1u << 16, 1 + i * 2654435761u};
    unsigned long long deposited = 0;
    while (waiting != nullptr) {
        particle* const now = waiting;
        waiting = now->next;
        for (unsigned step = 0; step < max_steps && now->energy > 16; ++step) {
            const unsigned random = next_random(now->random);
            const unsigned lost = now->energy / 8 + random % 8;
            deposited += lost;
            now->energy -= lost;
            if (random >> 28 == 0 && now->energy > 64) {
                auto* const secondary = new particle;
                if (secondary == nullptr) {
                    atomicAdd(&counts->nulls, 1ull);
                    break;
                }
                *secondary = {waiting, now->energy / 2, random | 1u};
                waiting = secondary;
                now->energy -= now->energy / 2;
            }
        }
        deposited += now->energy;
        delete now;
    }
    atomicAdd(&counts->result, deposited);
}

}  // namespace

int main(int count, char** arguments) {
    return unchanged::run("monte_carlo", count, arguments, [](unchanged::counts* counts) {
        const unchanged::phase now("compute");
        follow<<<threads / 256, 256>>>(counts);
    });
}
