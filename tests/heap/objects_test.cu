// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Objects in a heap: `heap_ref::make`, `destroy` and `new (heap) T`.

#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

using simt::order;
using word = simt::device_word<std::uint32_t>;

/// Objects are counted where they are made and destroyed.
struct counts {
    word made;
    word destroyed;
    word wrong;  ///< objects that were not as they had been made
    word nulls;
};

/// A class with virtual functions, and two that are derived from it.
class shape {
public:
    ORCHARD_FN explicit shape(counts* n) : n_{n} { n_->made.fetch_add<order::relaxed>(1); }
    ORCHARD_FN virtual ~shape() { n_->destroyed.fetch_add<order::relaxed>(1); }
    [[nodiscard]] ORCHARD_FN virtual std::uint64_t area() const = 0;

private:
    counts* n_;
};

class square final : public shape {
public:
    ORCHARD_FN square(counts* n, std::uint64_t side) : shape{n}, side_{side} {}
    [[nodiscard]] ORCHARD_FN std::uint64_t area() const override { return side_ * side_; }

private:
    std::uint64_t side_;
};

/// Larger than the largest page, so that it lies in a chunk.
class bitmap final : public shape {
public:
    ORCHARD_FN bitmap(counts* n, std::uint64_t set) : shape{n} {
        for (std::uint64_t i = 0; i < words; i += words / 8) {
            bits_[i] = set;
        }
    }
    [[nodiscard]] ORCHARD_FN std::uint64_t area() const override { return bits_[words / 8 * 7]; }

private:
    static constexpr std::uint64_t words = 80'000;
    std::uint64_t bits_[words];
};

/// Aligned to more than `malloc` promises.
struct alignas(256) wide {
    ORCHARD_FN explicit wide(std::uint32_t v) : value{v} {}
    std::uint32_t value;
    char rest[300];
};

/// An aggregate, which has no constructor.
struct pair_of {
    std::uint32_t first;
    std::uint32_t second;
};

struct make_shapes {
    heap_ref heap;
    shape** shapes;
    counts* n;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto i = static_cast<std::uint32_t>(at.global_thread());
        shape* one = nullptr;
        if (i % 3 == 0) {
            one = heap.make<square>(n, i);
        } else if (i % 3 == 1) {
            one = new (heap) square(n, i);
        } else {
            one = heap.make<bitmap>(n, std::uint64_t{i} * i);
        }
        shapes[i] = one;
        n->nulls.fetch_add<order::relaxed>(one == nullptr ? 1 : 0);
    }
};

/// Another kernel, and for each object another thread, destroys through the base class.
struct destroy_shapes {
    heap_ref heap;
    shape** shapes;
    counts* n;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.threads() - 1 - at.global_thread();
        if (shapes[i] != nullptr) {
            n->wrong.fetch_add<order::relaxed>(shapes[i]->area() != i * i ? 1 : 0);
        }
        heap.destroy(shapes[i]);
    }
};

struct make_others {
    heap_ref heap;
    counts* n;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto i = static_cast<std::uint32_t>(at.global_thread());
        const wide* const w = heap.make<wide>(i);
        const wide* const v = new (heap) wide(i);
        auto* const p = heap.make<pair_of>(i, i + 1);
        auto* const c = heap.make<const std::uint64_t>(7u);
        const bool right = w != nullptr && v != nullptr && as_number(w) % 256 == 0 && as_number(v) % 256 == 0 &&
                           w->value == i && v->value == i && p != nullptr && p->first == i && p->second == i + 1 &&
                           c != nullptr && *c == 7;
        n->wrong.fetch_add<order::relaxed>(right ? 0 : 1);
        heap.destroy(w);
        heap.destroy(v);
        heap.destroy(p);
        heap.destroy(c);
    }
};

class heap_objects : public heap_contract {};
INSTANTIATE_TEST_SUITE_P(all, heap_objects, ::testing::ValuesIn(heap_cases()), case_name);

// More bitmaps are asked for than a heap of 8 segments holds: of an object without memory, no constructor runs.
TEST_P(heap_objects, are_made_and_destroyed_once) {
    const auto shapes = array<shape*>(128);
    const auto n = array<counts>(1);
    launch({2, 64}, make_shapes{h().ref(), shapes.data(), n.data()});
    const counts made = to_host(n).front();
    EXPECT_EQ(made.made.load<order::relaxed>() + made.nulls.load<order::relaxed>(), 128u);
    EXPECT_EQ(made.nulls.load<order::relaxed>() != 0, heap_segments() <= 8);
    launch({2, 64}, destroy_shapes{h().ref(), shapes.data(), n.data()});
    const counts all = to_host(n).front();
    EXPECT_EQ(all.destroyed.load<order::relaxed>(), made.made.load<order::relaxed>());
    EXPECT_EQ(all.wrong.load<order::relaxed>(), 0u);
    EXPECT_EQ(settled_stats().invalid_frees, 0u);
    expect_empty();
}

TEST_P(heap_objects, of_every_kind_are_aligned_and_initialized) {
    const auto n = array<counts>(1);
    launch({1, 64}, make_others{h().ref(), n.data()});
    EXPECT_EQ(to_host(n).front().wrong.load<order::relaxed>(), 0u);
    expect_empty();
}

}  // namespace
}  // namespace orchard::test
