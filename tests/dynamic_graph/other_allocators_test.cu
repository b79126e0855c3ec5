// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// `orchard graph --allocator NAME`: the same graph in published allocators. These have blocks of any size (rw_malloc
// and xmalloc), of a size that depends on the memory (ouroboros), and none for the table of vertices (kma).

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "examples/published/graph_memory.cuh"
#include "examples/published/owners.hpp"
#include "examples/report/other_allocators.hpp"
#include "runtime/published/random_walk.hpp"
#include "tests/support/run_command.hpp"

namespace orchard::examples {
namespace {

using device::ouroboros::variant;
using testing::HasSubstr;
using words = std::vector<std::string>;

/// Adds the allocators to the test's program, before `main`.
const bool added = [] {
    auto& all = other_allocators<graph_in_allocator>();
    all["rw_malloc"] = graphs_in("rw_malloc", random_walk<device::page_policy::rw_malloc>::create, any_size);
    all["ouroboros_va_chunks"] =
        graphs_in("ouroboros_va_chunks", create_ouroboros<variant::va_chunks>, ouroboros_largest);
    all["xmalloc"] = graphs_in("xmalloc", create_xmalloc, any_size);
    all["kma"] = graphs_in("kma", create_kma, kma_largest);
    return true;
}();

/// Runs the command in one allocator. Returns its exit code and all that it printed.
std::pair<int, std::string> run_in(const std::string& allocator, words more, const std::string& capacity = "64MiB") {
    more.insert(more.end(), {"--allocator", allocator, "--capacity", capacity, "--quiet"});
    return test::run_emulated("graph", more);
}

/// Runs the command and returns its document.
nlohmann::json document_of(const std::string& allocator, words more) {
    more.emplace_back("--json");
    const auto [code, text] = run_in(allocator, std::move(more));
    EXPECT_EQ(code, 0) << text;
    return nlohmann::json::parse(text, nullptr, false);
}

/// The rows that edges take, and what each batch changed.
nlohmann::json rows_of(const nlohmann::json& document) {
    nlohmann::json of_all{document["degrees"], document["bytes_per_edge"]};
    for (const auto& batch : document["batches"]) {
        of_all.push_back({batch["taken"], batch["edges"], batch["bytes"]});
    }
    return of_all;
}

/// A graph file in which vertex 0 has `degree` neighbours; removed at the end.
class star {
public:
    explicit star(int degree) {
        std::ofstream file(path);
        for (int i = 1; i <= degree; ++i) {
            file << "0 " << i << "\n";
        }
    }
    star(const star&) = delete;
    star& operator=(const star&) = delete;
    ~star() { std::remove(path.c_str()); }

    const std::string path = testing::TempDir() + absl::StrCat("orchard_star_", ::getpid(), ".txt");
};

class graph_in_another : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(all, graph_in_another, testing::Values("rw_malloc", "ouroboros_va_chunks", "xmalloc", "kma"),
                         [](const auto& name) { return name.param; });

TEST_P(graph_in_another, is_the_same_graph) {
    const words run{"rmat:7", "--batch", "500", "--updates", "reinsert"};
    const auto in_it = document_of(GetParam(), run);
    const auto in_heap = document_of(own_allocator, run);
    EXPECT_EQ(in_it["allocator"], GetParam());
    EXPECT_TRUE(in_it["statistics"].is_null());
    EXPECT_FALSE(in_heap["statistics"].is_null());
    EXPECT_EQ(in_it["checks"].size() + 1, in_heap["checks"].size()) << "all but that of the heap";
    EXPECT_EQ(in_it["analyses"].size(), 6u);
    EXPECT_EQ(rows_of(in_it), rows_of(in_heap));
}
TEST_P(graph_in_another, changes_by_kernels_with_weights) {
    const auto [code, text] =
        run_in(GetParam(), {"rmat:6", "--batch", "300", "--by", "kernels", "--weights", "random"});
    EXPECT_EQ(code, 0) << text;
    EXPECT_THAT(text, HasSubstr("times as on the host, on the graph and on rows"));
}
TEST_P(graph_in_another, has_rows_that_blocks_of_threads_change) {
    const star file(6000);
    const auto [code, text] =
        run_in(GetParam(), {file.path, "--batch", "2500", "--check", "invariants", "--analyses", "bfs"});
    EXPECT_EQ(code, 0) << text;
}
TEST_P(graph_in_another, keeps_a_snapshot) {
    const auto snapshot =
        document_of(GetParam(), {"rmat:7", "--batch", "500", "--analyses", "none", "--snapshot"})["snapshot"];
    EXPECT_EQ(snapshot["equal"], true) << snapshot;
    EXPECT_GT(snapshot["row_bytes"], 0);
}
TEST_P(graph_in_another, without_memory_for_a_snapshot_is_one_error_with_the_remedy) {
    // Room for one table of 49 blocks of 64 KiB, for which xmalloc needs more, and not for two.
    const std::string capacity = GetParam() == "xmalloc" ? "11MiB" : "5MiB";
    const auto [code, text] = run_in(GetParam(), {"er:200000,400", "--analyses", "none", "--snapshot"}, capacity);
    EXPECT_NE(code, 0);
    EXPECT_EQ(std::ranges::count(text, '\n'), 1) << text;
    EXPECT_THAT(text, HasSubstr(GetParam() + ": no memory for the table of vertices; give a larger --capacity"));
}
TEST_P(graph_in_another, without_memory_is_one_error_with_the_remedy) {
    const auto [code, text] = run_in(GetParam(), {"er:3000,600000", "--analyses", "none"}, "4MiB");
    EXPECT_NE(code, 0);
    EXPECT_EQ(std::ranges::count(text, '\n'), 1) << text;
    EXPECT_THAT(text, HasSubstr(GetParam() + ": no memory for a block of "));
    EXPECT_THAT(text, HasSubstr("give a larger --capacity"));
}

TEST(graph_command, says_which_row_an_allocator_has_no_block_for) {
    const star file(17'000);
    const words run{file.path, "--analyses", "none"};
    const auto [code, text] = run_in("kma", run);
    EXPECT_NE(code, 0);
    EXPECT_EQ(std::ranges::count(text, '\n'), 1) << text;
    EXPECT_THAT(text,
                HasSubstr("kma: no memory for a block of 98304 B, in which the edges of a vertex lie; its largest "
                          "block has 65504 B; give another allocator, or a graph whose vertices have fewer edges"));
    // Its largest block depends on the memory.
    const auto [second, other] = run_in("ouroboros_va_chunks", run, "16MiB");
    EXPECT_NE(second, 0);
    EXPECT_THAT(other, HasSubstr("98304 B, in which the edges of a vertex lie; its largest block has 65536 B; give a "
                                 "larger --capacity"));
    EXPECT_EQ(run_in("ouroboros_va_chunks", run).first, 0);
}

TEST(graph_memory, names_no_refusal_of_an_earlier_batch) {
    const simt::executor on{.kind = simt::device_kind::emulated, .workers = 2};
    const auto g = find_allocator<graph_in_allocator>("kma")->plain(on, 64 << 20);
    ASSERT_TRUE(g.ok()) << g.status();
    const std::uint32_t degree = 17'000;  // the row has a block larger than the allocator's largest
    auto sources = device_array<std::uint32_t>::create(on, degree);
    auto targets = device_array<std::uint32_t>::create(on, degree);
    ASSERT_TRUE(sources.ok() && targets.ok());
    std::vector<std::uint32_t> numbers(degree);
    std::iota(numbers.begin(), numbers.end(), 1u);
    ASSERT_TRUE(targets->upload(numbers).ok());
    const auto change = [&](std::uint32_t count) {
        return (*g)->change(update_way::batches, true, {sources->data(), targets->data(), count});
    };
    EXPECT_EQ(change(degree)->left, degree);
    EXPECT_THAT(std::string((*g)->shortage().message()), HasSubstr("a block of 98304 B"));
    ASSERT_TRUE((*g)->forget_refusals().ok());
    EXPECT_EQ(change(100)->left, 0u);
    EXPECT_THAT(std::string((*g)->shortage().message()), HasSubstr("the table of vertices"));
}

TEST(graph_command, in_an_unknown_allocator_is_an_error_that_names_those_that_there_are) {
    const auto [code, text] = test::run_emulated("graph", {"rmat:4", "--allocator", "slab"});
    EXPECT_EQ(code, 2);
    EXPECT_THAT(text,
                HasSubstr("--allocator: there is no 'slab'; choose of orchard, kma, ouroboros_va_chunks, rw_malloc, "
                          "xmalloc"));
}

}  // namespace
}  // namespace orchard::examples
