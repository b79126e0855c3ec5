// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard apps`: its lists, its document, and what `--resume` leaves out.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/cli/command_line.hpp"
#include "tests/options/clean_environment.hpp"
#include "uvm/model/trace_file.hpp"

namespace orchard::test {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

struct command_result {
    int code;
    std::string out;
    std::string err;
};

class AppsCommand : public ::testing::Test {
protected:
    ~AppsCommand() override { std::filesystem::remove(file_); }

    static command_result run(const std::vector<std::string>& more) {
        std::vector<const char*> argv = {"orchard",  "apps", "--device", "emulated", "--threads",  "64",
                                         "--passes", "1",    "--bytes",  "1MiB",     "--capacity", "64MiB"};
        for (const std::string& word : more) {
            argv.push_back(word.c_str());
        }
        testing::internal::CaptureStdout();
        testing::internal::CaptureStderr();
        const int code = command_line::run(static_cast<int>(argv.size()), argv.data());
        std::string out = testing::internal::GetCapturedStdout();
        return {code, std::move(out), testing::internal::GetCapturedStderr()};
    }
    [[nodiscard]] ordered_json document() const { return ordered_json::parse(std::ifstream(file_)); }
    void write(const ordered_json& document) const { std::ofstream(file_) << document; }

    testing_support::clean_environment environment_;
    std::string file_ = testing::TempDir() + "apps_command_" + std::to_string(::getpid());
};

TEST_F(AppsCommand, RunsEachBackingAndLayoutAndWritesRows) {
    const auto result =
        run({"gemm", "--backing", "elastic,fixed,managed", "--layout", "linear,interleaved:4K", "--json", file_});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("interleaved:4K"));
    const ordered_json found = document();
    ASSERT_EQ(found.at("rows").size(), 6u);
    EXPECT_THAT(found.at("applications").at("bfs").at("check").get<std::string>(), HasSubstr("one level up"));
    const ordered_json& row = found.at("rows").at(3);
    EXPECT_EQ(row.at("application"), "gemm");
    EXPECT_EQ(row.at("backing"), "fixed");
    EXPECT_EQ(row.at("layout"), "interleaved:4K");
    EXPECT_EQ(row.at("bytes"), 1 << 20);
    EXPECT_EQ(row.at("part"), 1);
    EXPECT_GT(row.at("first_us"), 0);
    EXPECT_TRUE(row.at("third_us").is_null());
    EXPECT_GT(row.at("gb_per_s"), 0);
    EXPECT_EQ(row.at("resident_share"), 1);
    EXPECT_EQ(row.at("moved_bytes"), 0);
    EXPECT_EQ(row.at("wrong"), 0);
    EXPECT_EQ(row.at("checked"), 512);
    EXPECT_FALSE(row.contains("error"));
}

TEST_F(AppsCommand, TakesItsListsBeforeTheName) {
    const auto result = run({"--bytes", "2MiB", "--layout", "linear,interleaved:4K", "gemm", "--json", file_});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(document().at("rows").size(), 4u);  // 1 MiB is given, too
}

TEST_F(AppsCommand, ResumesWhatIsMissingAndWhatFailed) {
    ASSERT_EQ(run({"spmv", "--json", file_}).code, 0);
    ordered_json before = document();
    ASSERT_EQ(before.at("rows").size(), 1u);
    before["rows"][0]["allocate_us"] = -1;  // no run says so
    write(before);
    ASSERT_EQ(run({"spmv", "--layout", "linear,interleaved:64K", "--resume", file_, "--json", file_}).code, 0);
    ordered_json after = document();
    ASSERT_EQ(after.at("rows").size(), 2u);
    EXPECT_EQ(after["rows"][0]["allocate_us"], -1);
    EXPECT_EQ(after["rows"][1]["layout"], "interleaved:64K");
    after["rows"][0]["error"] = "something";
    write(after);
    ASSERT_EQ(run({"spmv", "--layout", "linear,interleaved:64K", "--resume", file_, "--json", file_}).code, 0);
    after = document();
    ASSERT_EQ(after.at("rows").size(), 2u);
    for (const ordered_json& row : after["rows"]) {
        EXPECT_FALSE(row.contains("error"));
        EXPECT_GT(row.at("allocate_us"), 0);
    }
    // Another seed is another run.
    ASSERT_EQ(run({"spmv", "--seed", "3", "--resume", file_, "--json", file_}).code, 0);
    EXPECT_EQ(document().at("rows").size(), 3u);
}

TEST_F(AppsCommand, DoesNoGreaterPartThanTheRunsBefore) {
    for (const char* name : {"spmv", "bfs"}) {
        std::filesystem::remove(file_);
        ASSERT_EQ(run({name, "--json", file_}).code, 0);
        ordered_json before = document();
        EXPECT_EQ(before["rows"][0]["part"], 1);
        before["rows"][0]["part"] = 0.25;
        write(before);
        ASSERT_EQ(run({name, "--layout", "interleaved:4K,interleaved:64K", "--resume", file_, "--json", file_}).code,
                  0);
        const ordered_json after = document();
        ASSERT_EQ(after.at("rows").size(), 3u);
        EXPECT_GE(after["rows"][1].at("part"), 0.25);
        EXPECT_LT(after["rows"][1].at("part"), 1);
        EXPECT_GE(after["rows"][2].at("part"), 0.25);
        EXPECT_LT(after["rows"][2].at("part"), 1);
        // Another size is other work.
        ASSERT_EQ(run({name, "--bytes", "2MiB", "--resume", file_, "--json", file_}).code, 0);
        EXPECT_EQ(document().at("rows").back().at("part"), 1);
    }
}

TEST_F(AppsCommand, BeginsWithoutAFileToResume) {
    const auto result = run({"gemm", "--resume", file_, "--json", file_});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(document().at("rows").size(), 1u);
}

TEST_F(AppsCommand, RefusesToResumeWhatIsNotItsOwn) {
    write({{"rows", "none"}});
    EXPECT_EQ(run({"gemm", "--resume", file_}).code, 2);
    ordered_json other{{"device", {{"kind", "cuda"}}}, {"applications", {}}, {"rows", ordered_json::array()}};
    write(other);
    const auto result = run({"gemm", "--resume", file_});
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr("another device"));
}

TEST_F(AppsCommand, RunsTheOthersWhereMemoryIsShortAndFails) {
    const auto result = run({"gemm", "--bytes", "256MiB", "--bytes", "1MiB", "--json", file_});
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(result.err, HasSubstr("1 of 2 runs failed"));
    const ordered_json found = document();
    ASSERT_EQ(found.at("rows").size(), 2u);  // the smaller one first
    EXPECT_FALSE(found["rows"][0].contains("error"));
    EXPECT_THAT(found["rows"][1].at("error").get<std::string>(), HasSubstr("parts of arrays are missing"));
    EXPECT_GT(found["rows"][1].at("nulls"), 0);
}

TEST_F(AppsCommand, WritesATraceOfOneRun) {
    const std::string trace = file_ + ".trace";
    const auto result = run({"stencil", "--trace", trace, "--trace-every", "1", "--json", file_});
    EXPECT_EQ(result.code, 0) << result.err;
    const ordered_json row = document().at("rows").at(0);
    EXPECT_EQ(row.at("trace_every"), 1);
    EXPECT_EQ(row.at("trace_lost"), 0);
    const auto loaded = uvm_model::trace::load(trace);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(loaded->header().accesses, row.at("trace_accesses").get<std::uint64_t>());
    EXPECT_EQ(loaded->header().warps, 2u);
    std::filesystem::remove(trace);
    EXPECT_THAT(run({"all", "--trace", trace}).err, HasSubstr("--trace: give one application"));
}

TEST_F(AppsCommand, NamesWhatItDoesNotKnow) {
    const std::vector<std::pair<std::vector<std::string>, const char*>> wrong{
        {{"gems"}, "there is no application gems"},
        {{"gemm", "--layout", "linear,rows"}, "--layout: \"rows\" is no layout"},
        {{"gemm", "--layout", "automatic"}, "--layout: \"automatic\" is no layout"},
        {{"gemm", "--bytes", "1G"}, "--bytes: "},
        {{"gemm", "--backing", "disk"}, "--backing: "},
        {{"gemm", "--part", "0"}, "--part"},
        {{"gemm", "--backing", "managed", "--capacity", "8GiB"}, "managed_limit"},
    };
    for (const auto& [words, text] : wrong) {
        const auto result = run(words);
        EXPECT_EQ(result.code, 2) << text;
        EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
        EXPECT_THAT(result.err, HasSubstr(text));
    }
}

TEST_F(AppsCommand, SizesAManagedHeapByItsArrays) {
    const auto result = run({"gemm", "--backing", "managed", "--capacity", "0", "--json", file_});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(document()["rows"][0].at("by"), "emulated");
}

TEST_F(AppsCommand, ModelsEachApplicationOnTheBudgetOfTheGpu) {
    const std::vector<std::string> words{"all",   "--backing",  "managed", "--managed-limit", "128MiB", "--bytes",
                                         "16MiB", "--capacity", "8MiB",    "--host-budget",   "64MiB",  "--json",
                                         file_};
    const auto result = run(words);
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("model"));
    const ordered_json found = document();
    ASSERT_EQ(found.at("rows").size(), 16u);  // eight applications of 1 and of 16 MiB
    std::map<std::string, double> small;
    for (const ordered_json& row : found["rows"]) {
        EXPECT_EQ(row.at("by"), "model") << row;
        EXPECT_EQ(row.at("backing"), "managed");
        EXPECT_EQ(row.at("wrong"), 0);
        EXPECT_GT(row.at("checked"), 0);
        EXPECT_EQ(row.at("trace_lost"), 0);
        EXPECT_GT(row.at("trace_accesses"), 0);
        EXPECT_GT(row.at("first_us"), 0) << row;
        EXPECT_TRUE(row.at("median_us").is_null() && row.at("resident_share").is_null()) << row;
        EXPECT_GE(row.at("moved_bytes"), 4096) << row;
        const std::string name = row.at("application");
        if (row.at("bytes") == 1 << 20) {
            small[name] = row.at("first_us");
        } else {
            EXPECT_GT(row.at("first_us"), small[name]) << "more VA blocks: " << row;
        }
    }
    // A run whose row is known is not made again.
    std::vector<std::string> again = words;
    again.insert(again.end(), {"--resume", file_});
    EXPECT_EQ(run(again).out.find("gemm"), std::string::npos);
    EXPECT_EQ(document().at("rows").size(), 16u);
}

TEST_F(AppsCommand, HasNoPredictionOfARunThatFailed) {
    const auto result = run({"stencil", "--backing", "managed", "--managed-limit", "8MiB", "--capacity", "16MiB",
                             "--bytes", "64MiB", "--layout", "linear", "--json", file_});
    EXPECT_NE(result.code, 0);
    const ordered_json found = document();
    ASSERT_EQ(found.at("rows").size(), 2u);  // the first of 1 MiB, as in all these tests
    EXPECT_GT(found["rows"][0].at("first_us"), 0);
    const ordered_json& row = found["rows"][1];
    EXPECT_EQ(row.at("by"), "model");
    EXPECT_TRUE(row.contains("error")) << row;
    EXPECT_TRUE(row.at("first_us").is_null() && row.at("gb_per_s").is_null() && row.at("moved_bytes").is_null()) << row;
}

TEST_F(AppsCommand, MeasuresManagedArraysUpToTheLimitAndModelsThoseAbove) {
    const auto result = run({"stencil", "--backing", "managed", "--managed-limit", "264MiB", "--capacity", "0",
                             "--bytes", "64MiB", "--json", file_});
    ASSERT_EQ(result.code, 0) << result.err;
    const ordered_json found = document();
    ASSERT_EQ(found.at("rows").size(), 2u);
    EXPECT_EQ(found["rows"][0].at("by"), "emulated");
    EXPECT_EQ(found["rows"][1].at("by"), "model");
}

}  // namespace
}  // namespace orchard::test
