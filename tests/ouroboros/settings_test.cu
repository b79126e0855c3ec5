// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The settings of Ouroboros: what is wrong is refused by an error that names the value and the remedy.

#include <gmock/gmock.h>

#include "tests/ouroboros/ouroboros_fixture.hpp"

namespace orchard::test {
namespace {

using ::testing::HasSubstr;

template <variant V = variant::s_pages>
std::string refusal(const ouroboros_settings& settings) {
    const auto made = ouroboros<V>::create(simt::executor{}, settings);
    EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(made.status().message());
}

TEST(OuroborosSettings, WrongOnesAreRefused) {
    EXPECT_THAT(refusal({.instances = {}}), HasSubstr("0 instances"));
    EXPECT_THAT(refusal({.instances = std::vector<ouroboros_instance>(5)}), HasSubstr("5 instances"));
    EXPECT_THAT(refusal({.trail = 65}), HasSubstr("trail = 65"));
    EXPECT_THAT(refusal({.instances = {{.chunk_bytes = 3000}}}), HasSubstr("chunk_bytes = 3000"));
    EXPECT_THAT(refusal({.instances = {{.chunk_bytes = 128}}}), HasSubstr("chunk_bytes = 128"));
    EXPECT_THAT(refusal({.instances = {{.chunk_bytes = 2 << 20}}}), HasSubstr("chunk_bytes = 2097152"));
    EXPECT_THAT(refusal({.instances = {{.smallest_page = 8}}}), HasSubstr("smallest_page = 8"));
    EXPECT_THAT(refusal({.instances = {{.smallest_page = 48}}}), HasSubstr("smallest_page = 48"));
    EXPECT_THAT(refusal({.instances = {{.smallest_page = 16384}}}), HasSubstr("from 16 B to 8192 B"));
    EXPECT_THAT(refusal({.instances = {{.bytes = 8 << 20, .chunk_bytes = 1 << 20}}}), HasSubstr("from 32 B"));
    EXPECT_THAT(refusal({.instances = {{.bytes = 8192}}}), HasSubstr("needs 16384 B"));
    EXPECT_THAT(refusal({.instances = {{.bytes = std::uint64_t{64} << 30}}}), HasSubstr("2^32 - 1 pages"));
    EXPECT_THAT(refusal({.instances = {{.bytes = 1 << 20, .queue_entries = 100}}}), HasSubstr("queue_entries = 100"));
    EXPECT_THAT(refusal({.instances = {{}, {}}}), HasSubstr("chunk_bytes = 8192 behind an instance with 8192"));
}

TEST(OuroborosSettings, QueuesInChunksNeedMemoryForThem) {
    // Ten sizes of pages, and a queue of two chunks for each, of three with a trail.
    EXPECT_THAT(refusal<variant::va_pages>({.instances = {{.bytes = 21 * 8192}}}), HasSubstr("keeps 20 chunks"));
    EXPECT_THAT(refusal<variant::vl_pages>({.instances = {{.bytes = 31 * 8192}}}), HasSubstr("keeps 30 chunks"));
    EXPECT_THAT(refusal<variant::vl_chunks>({.instances = {{.bytes = 31 * 8192}}, .trail = 0}),
                HasSubstr("keeps 30 chunks"));
    EXPECT_TRUE(ouroboros<variant::va_pages>::create(simt::executor{}, {.instances = {{.bytes = 22 * 8192}}}).ok());
}

TEST(OuroborosSettings, AShortQueueBoundsItsClassAndLosesNoPage) {
    // Room for the 64 B pages of two chunks, and thus for 16 B pages of half a chunk: none.
    const simt::executor on;
    const auto m = ouroboros<variant::s_pages>::create(
        on, {.instances = {{.bytes = 64 << 10, .chunk_bytes = 1024, .smallest_page = 64, .queue_entries = 40}}});
    ASSERT_TRUE(m.ok()) << m.status();
    constexpr std::size_t n = 100;
    const auto sizes = *device_array<std::uint64_t>::create(on, n);
    const auto blocks = *device_array<void*>::create(on, n);
    auto wrong = *device_array<simt::device_word<std::uint32_t>>::create(on, 1);
    for (std::uint64_t& s : std::span(sizes.data(), n)) {
        s = 64;
    }
    for (int round = 0; round < 3; ++round) {
        ASSERT_TRUE(
            simt::launch(on, {2, 50}, ouroboros_allocate<variant::s_pages>{m->ref(), sizes.data(), blocks.data(), n})
                .ok);
        EXPECT_EQ(n - static_cast<std::size_t>(std::count(blocks.data(), blocks.data() + n, nullptr)), 32u);
        ASSERT_TRUE(
            simt::launch(on, {2, 50},
                         ouroboros_free<variant::s_pages>{m->ref(), sizes.data(), blocks.data(), n, wrong.data()})
                .ok);
    }
    EXPECT_EQ(wrong.data()->load<simt::order::relaxed>(), 0u);
}

}  // namespace
}  // namespace orchard::test
