// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Copying and clearing of blocks by lanes alone and together (device/group/block_bytes.cuh).

#include "device/group/block_bytes.cuh"
#include "tests/support/default_cases.hpp"

namespace orchard::test {
namespace {

constexpr std::uint64_t room = 80'000;  // bytes for each lane's block, and a multiple of 16

/// Lane i copies sizes[i] bytes of its part of `from` to its part of `to`, or clears them if i is a multiple of 3.
/// Lanes whose size is 0 take no part. With `by_parity`, odd and even lanes do so one after the other.
struct write_blocks {
    const char* from;
    char* to;
    const std::uint64_t* sizes;
    std::uint64_t count;
    bool by_parity;

    ORCHARD_FN void write(std::uint64_t i) const {
        device::write_block(simt::converge(), to + i * room, i % 3 == 0 ? nullptr : from + i * room, sizes[i]);
    }
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i >= count || sizes[i] == 0) {
            return;
        }
        if (by_parity && i % 2 != 0) {
            write(i);
            return;
        }
        write(i);
    }
};

class heap_block_bytes : public heap_contract {};
INSTANTIATE_TEST_SUITE_P(all, heap_block_bytes, ::testing::ValuesIn(default_cases()), case_name);

TEST_P(heap_block_bytes, are_copied_and_cleared_and_no_others) {
    const std::vector<std::uint64_t> all{1,    15,   16,   17,   63,     64,    100,    4080,  4095,
                                         4096, 4097, 4111, 8192, 10'000, 65535, 65'536, 70'001};
    for (const std::uint64_t lanes : {1u, 7u, 32u, 50u}) {
        for (const bool by_parity : {false, true}) {
            std::vector<std::uint64_t> sizes;
            std::vector<char> bytes(lanes * room);
            for (std::uint64_t i = 0; i < lanes; ++i) {
                sizes.push_back(i % 11 == 5 ? 0 : all[(i * 5 + lanes) % all.size()]);
            }
            for (std::uint64_t i = 0; i < bytes.size(); ++i) {
                bytes[i] = static_cast<char>(1 + i * 31 % 251 % 100);
            }
            const std::vector<char> before(bytes.size(), static_cast<char>(0x7e));
            const auto from = array_of(bytes);
            const auto to = array_of(before);
            const auto asked = array_of(sizes);
            launch({1, static_cast<std::uint32_t>(lanes)},
                   write_blocks{from.data(), to.data(), asked.data(), lanes, by_parity});
            const std::vector<char> after = to_host(to);
            std::uint64_t wrong = 0;
            for (std::uint64_t i = 0; i < after.size(); ++i) {
                const std::uint64_t lane = i / room;
                const char right = i % room >= sizes[lane] ? before[i] : lane % 3 == 0 ? char{0} : bytes[i];
                wrong += after[i] != right ? 1 : 0;
            }
            EXPECT_EQ(wrong, 0u) << lanes << " lanes, " << (by_parity ? "odd and even apart" : "together");
        }
    }
}

}  // namespace
}  // namespace orchard::test
