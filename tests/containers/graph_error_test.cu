// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// What is left of a graph after an error in a batch: of a launch, or of a row that would be too long.

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device/simt/launch_watch.hpp"
#include "tests/containers/graph_fixture.hpp"

namespace orchard::test {
namespace {

/// Makes a launch fail: the one behind `passing` others of kernels whose names begin with `prefix`. While it lives.
class refused_launch {
public:
    explicit refused_launch(int passing, const char* prefix = "graph_") {
        left_ = passing;
        prefix_ = prefix;
        refused_.clear();
        simt::watched_launches.store(&watch, std::memory_order_release);
    }
    ~refused_launch() { simt::watched_launches.store(nullptr, std::memory_order_release); }
    refused_launch(const refused_launch&) = delete;
    refused_launch& operator=(const refused_launch&) = delete;

    /// Returns the name of the kernel that was refused; empty if none was.
    [[nodiscard]] const std::string& kernel() const { return refused_; }

private:
    static const char* refuse(const char* function) {
        const std::string_view name = simt::kernel_name(function);
        if (name.substr(0, prefix_.size()) != prefix_ || left_-- != 0) {
            return nullptr;
        }
        refused_ = name;
        return "refused by the test";
    }
    static void ignore_begin(const char*) {}
    static void ignore_end() {}
    static constexpr simt::launch_watch watch{ignore_begin, ignore_end, refuse};

    static inline int left_ = 0;
    static inline std::string_view prefix_;
    static inline std::string refused_;
};

using numbered_graph = graph<std::uint32_t>;
using numbered_edges = std::map<graph_edge, std::uint32_t>;

class containers_graph_error : public graph_contract {
protected:
    /// Edges of a hub, a wide row and narrow rows: for the graph that a batch finds, and for the batch, which makes
    /// some rows move, of each kind, while others stay.
    static edges_on_host edges_of_all_kinds(bool of_batch) {
        edges_on_host edges;
        const auto add = [&](std::uint32_t u, std::uint32_t degree, std::uint32_t more) {
            for (std::uint32_t i = 0; i < (of_batch ? more : degree); ++i) {
                edges.emplace_back(u, of_batch ? 2 * i + 1 : 2 * i);
            }
        };
        add(1, 6'000, 300);  // a hub that moves, of 48 KB
        add(2, 5'000, 300);  // one that stays
        add(3, 500, 30);     // a wide row that moves
        add(4, 400, 30);     // one that stays
        for (std::uint32_t u = 5; u < 60; ++u) {
            add(u, u, 2);
        }
        add(5'000, 0, 3);  // a new one
        return edges;
    }
    /// Returns half of the edges, and of every second vertex all, so that rows move and stay.
    static edges_on_host half_of(const edges_on_host& edges) {
        edges_on_host half;
        for (const graph_edge& e : edges) {
            if (e.second % 4 == 0 || e.first % 2 == 0) {
                half.push_back(e);
            }
        }
        return half;
    }
    static std::vector<std::uint32_t> numbers_from(const edges_on_host& edges, std::uint32_t first) {
        std::vector<std::uint32_t> numbers(edges.size());
        std::generate(numbers.begin(), numbers.end(), [&] { return first++; });
        return numbers;
    }
    numbered_edges all_of(absl::StatusOr<csr_graph<std::uint32_t>> csr) {
        numbered_edges all;
        const edge_set edges = edges_of(csr);
        if (csr.ok()) {
            const auto properties = to_host(csr->properties);
            std::size_t i = 0;
            for (const graph_edge& e : edges) {
                all.emplace(e, properties[i++]);
            }
        }
        return all;
    }
    /// Fails each launch of a batch in turn, each time of another graph.
    void fail_each_launch(bool adds, bool has_snapshot);
};
INSTANTIATE_TEST_SUITE_P(all, containers_graph_error, ::testing::ValuesIn(heap_cases()), case_name);

void containers_graph_error::fail_each_launch(bool adds, bool has_snapshot) {
    const auto before = edges_of_all_kinds(false);
    const auto base = batch_of(before, false, numbers_from(before, 0));
    const auto edges = adds ? edges_of_all_kinds(true) : half_of(before);
    const auto numbers = numbers_from(edges, 1'000'000);
    const auto held = batch_of(edges, false, numbers);
    const auto change = [&](numbered_graph& g) { return adds ? g.insert(held.batch) : g.erase(held.batch); };
    numbered_edges then;
    for (std::size_t i = 0; i < before.size(); ++i) {
        then.emplace(before[i], static_cast<std::uint32_t>(i));
    }
    numbered_edges wanted = then;
    for (std::size_t i = 0; i < edges.size(); ++i) {
        if (adds) {
            wanted.emplace(edges[i], numbers[i]);
        } else {
            wanted.erase(edges[i]);
        }
    }
    int launches = 0;
    for (;; ++launches) {
        ASSERT_LT(launches, 100);
        auto created = numbered_graph::create(h());
        ASSERT_TRUE(created.ok()) << created.status();
        std::optional<numbered_graph> made(*std::move(created));
        numbered_graph& g = *made;
        ASSERT_EQ(g.insert(base.batch).value_or(batch_result{}).taken, before.size());
        {
            std::optional<graph_snapshot<std::uint32_t>> snapshot;
            if (has_snapshot) {
                auto opened = g.snapshot();
                ASSERT_TRUE(opened.ok()) << opened.status();
                snapshot.emplace(*std::move(opened));
            }
            std::string kernel;
            const absl::Status failed = [&] {
                const refused_launch refusal(launches);
                auto done = change(g);
                kernel = refusal.kernel();
                return done.status();
            }();
            if (kernel.empty()) {
                ASSERT_TRUE(failed.ok()) << failed;
                EXPECT_EQ(all_of(g.to_csr()), wanted);
                break;
            }
            SCOPED_TRACE(kernel);
            ASSERT_EQ(failed.code(), absl::StatusCode::kInternal) << failed;
            EXPECT_THAT(failed.message(), ::testing::HasSubstr(kernel + ": refused by the test"));
            if (has_snapshot) {
                EXPECT_EQ(all_of(g.to_csr(*snapshot)), then);
            }
            const bool is_early = kernel == "graph_begin" || kernel == "graph_keys" || kernel == "graph_search" ||
                                  kernel == "graph_gather";
            const auto again = change(g);
            if (is_early) {
                ASSERT_TRUE(again.ok()) << again.status();
                EXPECT_EQ(all_of(g.to_csr()), wanted);
            } else {
                EXPECT_EQ(again.status().code(), absl::StatusCode::kFailedPrecondition) << again.status();
            }
            if (has_snapshot) {
                EXPECT_EQ(all_of(g.to_csr(*snapshot)), then);
            }
        }
        if (launches % 2 == 0) {
            ASSERT_TRUE(g.clear().ok());
            ASSERT_NO_FATAL_FAILURE(expect_empty());
            EXPECT_EQ(g.insert(base.batch).value_or(batch_result{}).taken, before.size());
            EXPECT_EQ(all_of(g.to_csr()), then);
        }
        made.reset();
        ASSERT_NO_FATAL_FAILURE(expect_empty());
    }
    EXPECT_GE(launches, 12);
}

TEST_P(containers_graph_error, a_launch_that_fails_ends_an_insertion) {
    if (has_few_segments()) {
        GTEST_SKIP() << "rows of each size take a segment of their own";
    }
    fail_each_launch(true, false);
}
TEST_P(containers_graph_error, a_launch_that_fails_ends_a_removal) {
    if (has_few_segments()) {
        GTEST_SKIP() << "rows of each size take a segment of their own";
    }
    fail_each_launch(false, false);
}
TEST_P(containers_graph_error, a_launch_that_fails_changes_no_snapshot) {
    if (has_few_segments()) {
        GTEST_SKIP() << "rows of each size take a segment of their own";
    }
    fail_each_launch(true, true);
    fail_each_launch(false, true);
}

// After a shortage, the last kernel alone fails: all rows are right, and the same batch finds what is missing.
TEST_P(containers_graph_error, a_launch_that_fails_after_a_shortage_loses_no_edge) {
    remake([&] {
        options o = GetParam().values();
        o.capacity = GetParam().where == lies_in::its_own ? 8 * segment_bytes : o.capacity;
        o.range = 0;
        return o;
    }());
    auto g = make_graph();
    insert(g, {{1, 1}});
    const std::vector<std::uint64_t> sizes(4 * heap_segments(), 512 << 10);
    std::vector<block> taken = allocate(sizes);
    std::erase_if(taken, [](const block& b) { return b.address == 0; });
    edges_on_host edges;
    for (std::uint32_t i = 0; i < 20'000; ++i) {
        edges.emplace_back(i % 5 == 0 ? 1 : i % 50, i);
    }
    const auto held = batch_of(edges);
    {
        const refused_launch refusal(0, "graph_list_left");
        const auto failed = g.insert(held.batch);
        ASSERT_EQ(refusal.kernel(), "graph_list_left");
        EXPECT_THAT(failed.status().message(), ::testing::HasSubstr("graph_list_left: refused by the test"));
    }
    free_all(taken);
    const auto second = g.insert(held.batch);
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_EQ(second->left, 0u);
    edge_set wanted(edges.begin(), edges.end());
    wanted.emplace(1, 1);
    expect_edges(g, wanted);
    EXPECT_TRUE(g.clear().ok());
    expect_empty();
}

// A row of 16 GiB, which takes no memory: it has addresses alone, and its pages are zero until they are written.
TEST_P(containers_graph_error, a_row_that_would_be_too_long_keeps_its_edges) {
    if (GetParam().device == device_option::cuda) {
        GTEST_SKIP() << "needs addresses of the host's for a row";
    }
    constexpr std::uint64_t bytes = std::uint64_t{16} << 30;
    void* const p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        GTEST_SKIP() << "no 16 GiB of addresses";
    }
    auto g = make_graph();
    insert(g, {{1, 2}, {7, 2'000}});
    device::graph_vertex* const v = g.ref().table().find(1);
    ASSERT_NE(v, nullptr);
    const std::uint64_t old_run = v->run.get();
    v->run.set(device::graph_run::pack(p, device::graph_run::class_for(bytes)));
    v->degree.set(device::graph_max_degree - 1);
    ASSERT_EQ(device::graph_run::bytes(v->run.get()), bytes);

    const auto two = batch_of({{1, 5}, {7, 1'000}, {1, 6}});
    const auto refused = g.insert(two.batch);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kOutOfRange) << refused.status();
    EXPECT_THAT(refused.status().message(), ::testing::HasSubstr("4294959105 edges"));
    const auto rest = g.rest(two.batch);
    ASSERT_TRUE(rest.ok()) << rest.status();
    EXPECT_EQ(to_host(rest->sources), (std::vector<std::uint32_t>{1, 1}));
    EXPECT_EQ(to_host(rest->targets), (std::vector<std::uint32_t>{5, 6}));
    EXPECT_EQ(v->degree.get(), device::graph_max_degree - 1);

    // One has room. A kernel's call finds none for another one.
    EXPECT_EQ(insert(g, {{1, 6}}).taken, 1u);
    EXPECT_EQ(v->degree.get(), device::graph_max_degree);
    const auto one = batch_of({{1, 7}});
    const auto results = array<simt::device_word<std::uint64_t>>(3);
    launch({1, 32}, change_each{g.ref(), one.batch.sources, one.batch.targets, 1, edge_call::add, results.data()});
    EXPECT_EQ(to_host(results)[static_cast<int>(edge_result::no_memory)].load<simt::order::relaxed>(), 1u);
    EXPECT_EQ(g.insert(one.batch).status().code(), absl::StatusCode::kOutOfRange);
    const auto asked = batch_of({{1, 6}, {1, 5}, {7, 1'000}});
    const auto found = array<std::uint8_t>(3);
    ASSERT_TRUE(g.contains(asked.batch.sources, asked.batch.targets, 3, found.data()).ok());
    EXPECT_EQ(to_host(found), (std::vector<std::uint8_t>{1, 0, 1}));
    EXPECT_EQ(erase(g, {{1, 6}}).taken, 1u);

    v->run.set(old_run);
    v->degree.set(1);
    EXPECT_EQ(::munmap(p, bytes), 0);
    expect_edges(g, {{1, 2}, {7, 1'000}, {7, 2'000}});
}

}  // namespace
}  // namespace orchard::test
