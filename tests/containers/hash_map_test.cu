// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "runtime/containers/hash_map.hpp"

#include <gmock/gmock.h>

#include "tests/support/heap_fixture.hpp"
namespace orchard::test {
namespace {
struct one { hash_map_ref<std::uint32_t, std::uint32_t> map; hash_map_ref<std::uint64_t, std::uint64_t> b; hash_set_ref<std::uint64_t> c;
ORCHARD_FN void operator()(simt::thread_position at) const { map.insert(at.thread, 3); b.upsert(at.thread, 1, [](std::uint64_t v) { return v + 1; }); b.erase(at.thread); c.insert(7);}};
class containers_hash_map : public heap_contract {};
INSTANTIATE_TEST_SUITE_P(all, containers_hash_map, ::testing::ValuesIn(heap_cases()), case_name);
TEST_P(containers_hash_map, holds) {
    auto a = hash_map<std::uint32_t, std::uint32_t>::create(h());
    auto b = hash_map<std::uint64_t, std::uint64_t>::create(h());
    auto c = hash_set<std::uint64_t>::create(h());
    ASSERT_TRUE(a.ok()) << a.status();
    launch({4, 96}, one{a->ref(), b->ref(), c->ref()});
    EXPECT_EQ(*a->size(), 96u);
    EXPECT_EQ(*c->size(), 1u);
    EXPECT_EQ(a->contents()->size(), 96u);
}
}
}
