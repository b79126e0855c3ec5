// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Calls of an application while a kernel runs that grows its heap by 8 GiB. Some of the calls wait for the kernel, and
/// delay other calls meanwhile. The heap's growth must not be delayed: every request gets memory. On a GPU only; each
/// row in a process of its own, because CUDA_MODULE_LOADING is read once.
///
/// If the variable DEADLOCK_ROWS names a file, each row is appended to it as a line of JSON, for
/// profiling/report/programs_table.py.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "tests/deadlock/calls.hpp"
#include "tests/deadlock/child_process.hpp"
#include "tests/deadlock/gpu_lock.hpp"
#include "tests/deadlock/row.hpp"
#include "tests/deadlock/row_run.hpp"

namespace orchard::test {
namespace {

std::string label_of(std::uint64_t bytes) {
    return bytes < mib_bytes ? absl::StrCat(bytes >> 10, "KiB") : absl::StrCat(bytes / mib_bytes, "MiB");
}

std::vector<row_order> all_rows() {
    bed nothing;
    std::vector<row_order> rows;
    for (const blocking_call& call : all_calls(&nothing)) {
        for (const std::uint64_t bytes : {std::uint64_t{2} << 10, std::uint64_t{64} << 10, 8 * mib_bytes}) {
            for (const char* loading : {"LAZY", "EAGER"}) {
                rows.push_back({call.name, bytes, loading, {}});
            }
        }
    }
    return rows;
}

std::string name_of_row(const ::testing::TestParamInfo<row_order>& info) {
    std::string name;
    for (const char c : info.param.call) {
        if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
            name += c;
        } else if (name.back() != '_') {
            name += '_';
        }
    }
    return absl::StrCat(name, "_", label_of(info.param.block_bytes), "_", info.param.loading);
}

/// Returns the row of a process that did not end as it should.
row row_without_end(const row_order& order, const child_end& end) {
    row result;
    result.call = order.call;
    result.block_bytes = order.block_bytes;
    result.loading = order.loading;
    result.error = end.timed_out ? absl::StrCat("no end after ", absl::FormatDuration(row_deadline))
                                 : absl::StrCat("ended by exit code ", end.exit_code, ", signal ", end.signal);
    result.verdict = verdict_of(result);
    return result;
}

/// A file for one row, which is removed with this.
class temporary_path {
public:
    temporary_path() : path_{std::filesystem::temp_directory_path() / absl::StrCat("orchard_row_", getpid())} {
        std::filesystem::remove(path_);
    }
    ~temporary_path() { std::filesystem::remove(path_); }
    temporary_path(const temporary_path&) = delete;
    temporary_path& operator=(const temporary_path&) = delete;
    [[nodiscard]] std::string text() const { return path_.string(); }
    [[nodiscard]] std::string contents() const {
        std::ifstream in(path_);
        std::ostringstream all;
        all << in.rdbuf();
        return all.str();
    }

private:
    std::filesystem::path path_;
};

class beside_growth : public ::testing::TestWithParam<row_order> {
protected:
    static void record(const row& measured) {
        RecordProperty("call", measured.call);
        RecordProperty("block_bytes", absl::StrCat(measured.block_bytes));
        RecordProperty("loading", measured.loading);
        RecordProperty("calls", absl::StrCat(measured.calls));
        RecordProperty("longest_call_us", absl::StrCat(measured.longest_call_us.value_or(-1)));
        RecordProperty("longest_request_us", absl::StrCat(measured.longest_request_us.value_or(-1)));
        RecordProperty("nulls", absl::StrCat(measured.nulls.value_or(0)));
        RecordProperty("reason", measured.reason);
        RecordProperty("begun_mib", absl::StrCat(measured.begun_mib));
        RecordProperty("verdict", measured.verdict);
        if (const char* rows = std::getenv("DEADLOCK_ROWS"); rows != nullptr && *rows != '\0') {
            std::ofstream out(rows, std::ios::app);
            out << to_json(measured) << std::endl;
            EXPECT_TRUE(out.good()) << rows << " cannot be written";
        }
    }
};

INSTANTIATE_TEST_SUITE_P(calls, beside_growth, ::testing::ValuesIn(all_rows()), name_of_row);

TEST_P(beside_growth, each_request_gets_memory) {
    const gpu_lock alone;
    ASSERT_TRUE(alone.status().ok()) << alone.status();
    const temporary_path file;
    row_order order = GetParam();
    order.path = file.text();
    const auto ended =
        run_child("/proc/self/exe", arguments_of(order), {{"CUDA_MODULE_LOADING", order.loading}}, row_deadline);
    ASSERT_TRUE(ended.ok()) << ended.status();
    auto measured = row_from_json(file.contents());
    if (ended->exit_code != 0) {
        measured = row_without_end(order, *ended);
    }
    ASSERT_TRUE(measured.ok()) << measured.status();
    EXPECT_EQ(measured->call, order.call);
    record(*measured);
    if (measured->verdict == verdicts::not_tested || measured->verdict == verdicts::not_available) {
        GTEST_SKIP() << measured->verdict << ": "
                     << (measured->error.empty() ? "no commit was begun during the call" : measured->error);
    }
    EXPECT_EQ(measured->verdict, verdicts::through) << to_json(*measured);
}

}  // namespace
}  // namespace orchard::test
