// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// `work_queue`: each element comes out once, memory of elements that were read goes back, and a shortage loses nothing.

#include <orchard/work_queue.cuh>

#include <gmock/gmock.h>

#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

using simt::order;
using word = simt::device_word<std::uint32_t>;

struct task {
    std::uint32_t id = 0;
    std::uint32_t check = 0;

    [[nodiscard]] ORCHARD_FN static task of(std::uint32_t id) { return {id, id * 0x9e3779b9u}; }
    [[nodiscard]] ORCHARD_FN bool right() const { return check == id * 0x9e3779b9u; }
};

/// Works off a tree: task i of a complete binary tree pushes tasks 2 i and 2 i + 1. `open` counts tasks that are not
/// done.
struct work_tree {
    work_queue_ref<task> queue;
    std::uint32_t ids;
    word* visits;  ///< one for each task
    word* open;
    word* wrong;

    ORCHARD_FN void operator()(simt::thread_position) const {
        while (open->load<order::relaxed>() != 0) {
            task got;
            if (!queue.pop(got)) {
                simt::pause(500);
                continue;
            }
            if (!got.right() || got.id >= ids) {
                wrong->fetch_add<order::relaxed>(1);
            } else {
                visits[got.id].fetch_add<order::relaxed>(1);
            }
            for (std::uint32_t child = 2 * got.id; child <= 2 * got.id + 1 && child < ids; ++child) {
                open->fetch_add<order::relaxed>(1);
                if (!queue.push(task::of(child))) {
                    wrong->fetch_add<order::relaxed>(1);
                    open->fetch_sub<order::relaxed>(1);
                }
            }
            open->fetch_sub<order::relaxed>(1);
        }
    }
};

/// An element of 1 KiB, which fills a heap soon.
struct parcel : task {
    std::uint32_t rest[254] = {};

    [[nodiscard]] ORCHARD_FN static parcel of(std::uint32_t id) {
        parcel made;
        static_cast<task&>(made) = task::of(id);
        return made;
    }
};

template <class T = task>
struct push_tasks {
    work_queue_ref<T> queue;
    std::uint32_t first;
    std::uint32_t count;
    word* refused;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (auto i = static_cast<std::uint32_t>(at.global_thread()); i < count;
             i += static_cast<std::uint32_t>(at.threads())) {
            if (!queue.push(T::of(first + i))) {
                refused->fetch_add<order::relaxed>(1);
            }
        }
    }
};

/// Pops up to `count` tasks for each thread.
template <class T = task>
struct pop_tasks {
    work_queue_ref<T> queue;
    std::uint32_t count;
    word* visits;  ///< may be null
    word* got;

    ORCHARD_FN void operator()(simt::thread_position) const {
        T t;
        for (std::uint32_t i = 0; i < count && queue.pop(t); ++i) {
            if (t.right()) {
                got->fetch_add<order::relaxed>(1);
            }
            if (visits != nullptr) {
                visits[t.id].template fetch_add<order::relaxed>(1);
            }
        }
    }
};

/// One thread passes elements through the queue, and checks their order.
struct pass_in_order {
    work_queue_ref<task> queue;
    std::uint32_t count;
    word* wrong;

    ORCHARD_FN void operator()(simt::thread_position) const {
        std::uint32_t next = 0;
        task t;
        for (std::uint32_t i = 0; i < count; ++i) {
            const bool pushed = queue.push(task::of(i));
            if (!pushed || (i >= 80 && (!queue.pop(t) || t.id != next++))) {
                wrong->fetch_add<order::relaxed>(1);
            }
        }
        while (queue.pop(t)) {
            wrong->fetch_add<order::relaxed>(t.id == next++ ? 0 : 1);
        }
        wrong->fetch_add<order::relaxed>(next == count ? 0 : 1);
    }
};

class containers_work_queue : public heap_contract {
protected:
    std::uint32_t value_of(const device_array<word>& of, std::size_t i = 0) {
        return to_host(of)[i].load<order::relaxed>();
    }
};
INSTANTIATE_TEST_SUITE_P(all, containers_work_queue, ::testing::ValuesIn(heap_cases()), case_name);

TEST_P(containers_work_queue, works_off_a_tree) {
    constexpr std::uint32_t ids = 6000;
    auto queue = work_queue<task>::create(h(), 64);
    ASSERT_TRUE(queue.ok()) << queue.status();
    const auto counts = array<word>(2);
    const auto visits = array<word>(ids);
    const auto open = array_of(std::vector<word>(1, word(1)));
    launch({1, 1}, push_tasks<>{queue->ref(), 1, 1, counts.data()});
    EXPECT_EQ(*queue->size(), 1u);
    launch({3, 70}, work_tree{queue->ref(), ids, visits.data(), open.data(), counts.data() + 1});
    EXPECT_EQ(value_of(counts), 0u);
    EXPECT_EQ(value_of(counts, 1), 0u);
    EXPECT_EQ(value_of(open), 0u);
    EXPECT_EQ(*queue->size(), 0u);
    const std::vector<word> seen = to_host(visits);
    for (std::uint32_t id = 1; id < ids; ++id) {
        ASSERT_EQ(seen[id].load<order::relaxed>(), 1u) << id;
    }
    // At most the newest segment is left.
    EXPECT_LE(settled_stats().pages_in_use, 1u);
    EXPECT_TRUE(queue->clear().ok());
    EXPECT_EQ(settled_stats().pages_in_use, 0u);
    *queue = *work_queue<task>::create(h());
    expect_empty();
}

TEST_P(containers_work_queue, keeps_the_order_of_one_thread_and_gives_memory_back) {
    auto queue = work_queue<task>::create(h(), 64);
    ASSERT_TRUE(queue.ok()) << queue.status();
    const auto wrong = array<word>(1);
    launch({1, 1}, pass_in_order{queue->ref(), 3000, wrong.data()});
    EXPECT_EQ(value_of(wrong), 0u);
    EXPECT_LE(settled_stats().pages_in_use, 1u);
    // Parts of the contents are read, and the rest is freed by `clear`.
    const auto counts = array<word>(2);
    launch({2, 64}, push_tasks<>{queue->ref(), 0, 4000, counts.data()});
    EXPECT_EQ(value_of(counts), 0u);
    const std::uint64_t full = settled_stats().pages_in_use;
    EXPECT_GE(full, 4000u / 64);
    launch({2, 64}, pass_in_order{queue->ref(), 0, wrong.data()});
    EXPECT_EQ(*queue->size(), 0u) << "all threads popped until none was left";
    launch({2, 64}, push_tasks<>{queue->ref(), 0, 4000, counts.data()});
    launch({1, 64}, pop_tasks<>{queue->ref(), 20, nullptr, counts.data() + 1});
    EXPECT_EQ(value_of(counts, 1), 64u * 20);
    EXPECT_EQ(*queue->size(), 4000u - 64 * 20);
    EXPECT_LT(settled_stats().pages_in_use, full);
    EXPECT_TRUE(queue->clear().ok());
    EXPECT_EQ(*queue->size(), 0u);
    EXPECT_EQ(settled_stats().pages_in_use, 0u);
    *queue = *work_queue<task>::create(h());
    expect_empty();
}

TEST_P(containers_work_queue, a_shortage_refuses_the_rest_and_loses_nothing) {
    remake([&] {
        options o = GetParam().values();
        o.capacity = GetParam().where == lies_in::its_own ? 8 * segment_bytes : o.capacity;
        o.range = 0;
        return o;
    }());
    // Segments of 512 KiB, or a little more.
    auto queue = work_queue<parcel>::create(h(), 512);
    ASSERT_TRUE(queue.ok()) << queue.status();
    const auto count = static_cast<std::uint32_t>(heap_segments() * segment_bytes / sizeof(parcel) * 5 / 4);
    const auto counts = array<word>(2);
    const auto visits = array<word>(count);
    launch({8, 128}, push_tasks<parcel>{queue->ref(), 0, count, counts.data()});
    const std::uint32_t refused = value_of(counts);
    EXPECT_NE(refused, 0u);
    EXPECT_EQ(*queue->size(), count - refused);
    EXPECT_GE((count - refused) * std::uint64_t{3}, std::uint64_t{count}) << "a third of what is a little too much";
    EXPECT_TRUE(h().last_failure().has_value());
    launch({4, 64}, pop_tasks<parcel>{queue->ref(), count, visits.data(), counts.data() + 1});
    EXPECT_EQ(value_of(counts, 1), count - refused);
    for (const word& w : to_host(visits)) {
        ASSERT_LE(w.load<order::relaxed>(), 1u);
    }
    // There is memory again.
    launch({1, 64}, push_tasks<parcel>{queue->ref(), 0, 1000, counts.data()});
    EXPECT_EQ(value_of(counts), refused);
    EXPECT_EQ(*queue->size(), 1000u);
    *queue = *work_queue<parcel>::create(h());
    expect_empty();
}

TEST(work_queue, says_which_segments_are_allowed) {
    options o;
    o.device = device_option::emulated;
    o.capacity = 16 << 20;
    auto made = heap::create(o);
    ASSERT_TRUE(made.ok());
    for (const std::uint64_t places : {std::uint64_t{32}, std::uint64_t{100}, std::uint64_t{1} << 21}) {
        const auto queue = work_queue<int>::create(*made, places);
        EXPECT_EQ(queue.status().code(), absl::StatusCode::kInvalidArgument);
        EXPECT_NE(queue.status().message().find("2^20"), std::string::npos);
    }
}

}  // namespace
}  // namespace orchard::test
