// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// `orchard profile` with real processes: a program that stands in for one with CUDA (tests/profile/programs), and a
// library in CUPTI's place. Without CUPTI's header these are not built, and the cases that need them skip themselves.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "profiling/profile/record_file.hpp"
#include "runtime/cli/command_line.hpp"
#include "tests/options/clean_environment.hpp"
#include "tests/profile/records.hpp"

namespace orchard::profiling {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using testing::HasSubstr;
using testing::Not;

struct outcome {
    int code;
    std::string out;
    std::string err;
};

outcome run_with(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"orchard", "profile"});
    std::vector<const char*> argv;
    for (const std::string& argument : arguments) {
        argv.push_back(argument.c_str());
    }
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = command_line::run(static_cast<int>(argv.size()), argv.data());
    std::string out = testing::internal::GetCapturedStdout();
    return {code, std::move(out), testing::internal::GetCapturedStderr()};
}

fs::path programs() { return fs::read_symlink("/proc/self/exe").parent_path() / "profile"; }
const std::string with_cuda = (programs() / "orchard_with_cuda").string();

class profile_command : public testing::Test {
protected:
    void SetUp() override {
        if (!fs::exists(with_cuda)) {
            GTEST_SKIP() << "built without CUPTI's header";
        }
        set("ORCHARD_PROFILE_TEST_CUPTI", (programs() / "liborchard_fake_cupti.so").string());
        ::unsetenv("CUDA_INJECTION64_PATH");
        ::unsetenv("FAKE_CUPTI");
    }
    void TearDown() override {
        for (const char* name : {"ORCHARD_PROFILE_TEST_CUPTI", "CUDA_INJECTION64_PATH", "FAKE_CUPTI"}) {
            ::unsetenv(name);
        }
    }
    static void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

    static ordered_json document_of(const std::vector<std::string>& words) {
        std::vector<std::string> arguments{"--json=-"};
        arguments.insert(arguments.end(), words.begin(), words.end());
        const outcome result = run_with(arguments);
        EXPECT_EQ(result.code, 0) << result.err;
        return ordered_json::parse(result.out, nullptr, false);
    }

    testing_support::clean_environment environment_;
};

TEST_F(profile_command, records_a_program) {
    const ordered_json all = document_of({"--", with_cuda, "records"});
    EXPECT_EQ(all.at("exit_code"), 0);
    EXPECT_EQ(all.at("processes").size(), 1u);
    const auto& rows = all.at("rows");
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_EQ(rows[0].at("kernel"), "walk(int*)");
    EXPECT_EQ(rows[0].at("launches"), 2);
    EXPECT_EQ(rows[0].at("total_ns"), 4000);
    EXPECT_EQ(rows[0].at("median_ns"), 1000);
    EXPECT_EQ(rows[0].at("grid"), (ordered_json{400, 1, 1}));
    EXPECT_EQ(rows[0].at("registers"), 40);
    EXPECT_EQ(rows[1].at("kernel"), "orchard::device::drain()");
    const std::string text = all.dump();
    EXPECT_THAT(text, HasSubstr(R"({"operation":"copy, host to device","count":1,"bytes":4096,"time_ns":100})"));
    EXPECT_THAT(text, HasSubstr(R"({"operation":"fill","count":1,"bytes":512,"time_ns":0})"));
    EXPECT_THAT(text, HasSubstr(R"("operation":"pool trimmed")"));
    EXPECT_THAT(text, HasSubstr(R"({"what":"to the device","cause":"demand","records":1,"bytes":65536,)"));
    EXPECT_THAT(text, HasSubstr(R"({"what":"to the device","cause":"prefetch","records":1,"bytes":4096,)"));
    EXPECT_THAT(text, HasSubstr(R"({"what":"to the host","cause":"eviction","records":1,"bytes":4096,)"));
    EXPECT_THAT(text, HasSubstr(R"("what":"faults of the device","cause":"read","records":1,"bytes":0,"groups":3)"));
    EXPECT_EQ(all.at("loss").at("missing_to_host_bytes"), 4096);
    EXPECT_EQ(all.at("loss").at("on_device_at_end_bytes"), 65536 - 4096);
    EXPECT_THAT(text, HasSubstr("unified memory was recorded from the driver's start on"));
}

TEST_F(profile_command, prints_tables) {
    const outcome result = run_with({with_cuda, "print", "records"});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    EXPECT_THAT(result.out, testing::StartsWith("a line of the program\n"));
    EXPECT_THAT(result.out, HasSubstr("walk(int*)"));
    EXPECT_THAT(result.out, HasSubstr("no heap of Orchard"));
    EXPECT_THAT(result.out, HasSubstr("lost: unified memory: 0.004 MiB came to the device twice"));
}

TEST_F(profile_command, leaves_standard_output_to_the_document) {
    const outcome result = run_with({"--json=-", with_cuda, "print"});
    EXPECT_EQ(result.code, 0);
    EXPECT_TRUE(ordered_json::accept(result.out));
    EXPECT_EQ(result.err, "a line of the program\n");
}

TEST_F(profile_command, gives_the_program_all_words_behind_it) {
    // --json and --help are the program's, which does not know them.
    const outcome result = run_with({with_cuda, "--json", "--help", "-x", "--", "[a,b]", "exit", "5"});
    EXPECT_EQ(result.code, 5) << result.err;
    EXPECT_THAT(result.out, HasSubstr(with_cuda + " --json --help -x -- [a,b] exit 5: exit code 5"));
}

TEST_F(profile_command, passes_exit_codes_and_signals_on) {
    EXPECT_EQ(run_with({with_cuda, "exit", "37"}).code, 37);
    const outcome killed = run_with({with_cuda, "records", "kill", "9"});
    EXPECT_EQ(killed.code, 128 + SIGKILL);
    EXPECT_THAT(killed.out, HasSubstr("1 of 1 processes did not end by exit"));
    EXPECT_EQ(run_with({with_cuda, "await", std::to_string(SIGTERM)}).code, 40);
    EXPECT_EQ(run_with({with_cuda, "await", std::to_string(SIGHUP)}).code, 40);
    EXPECT_EQ(run_with({"sh", "-c", "exit 3"}).code, 3);
}

TEST_F(profile_command, says_that_a_program_did_not_use_cuda) {
    const outcome result = run_with({"true"});
    EXPECT_EQ(result.code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr("true did not use CUDA, or found no driver"));
}

TEST_F(profile_command, says_that_a_program_cannot_be_started) {
    const outcome result = run_with({"no-such-program-anywhere"});
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr("cannot start no-such-program-anywhere: No such file or directory"));
    EXPECT_THAT(run_with({"/"}).err, HasSubstr("cannot start /: "));
}

TEST_F(profile_command, does_not_replace_another_injection) {
    set("CUDA_INJECTION64_PATH", "/opt/nsys/libinjection.so");
    const outcome result = run_with({with_cuda});
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr("CUDA_INJECTION64_PATH is set to /opt/nsys/libinjection.so"));
}

TEST_F(profile_command, says_that_cupti_is_missing) {
    set("ORCHARD_PROFILE_TEST_CUPTI", "/nonexistent/libcupti.so");
    const outcome result = run_with({with_cuda});
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr("CUPTI cannot be loaded: /nonexistent/libcupti.so"));
    // The program's own code comes first.
    EXPECT_EQ(run_with({with_cuda, "exit", "6"}).code, 6);
}

TEST_F(profile_command, says_that_a_library_is_no_cupti) {
    set("ORCHARD_PROFILE_TEST_CUPTI", "libm.so.6");
    EXPECT_THAT(run_with({"--", with_cuda}).err, HasSubstr("libm.so.6 has no function cuptiGetVersion"));
}

TEST_F(profile_command, says_what_cupti_refuses) {
    set("FAKE_CUPTI", "old");
    EXPECT_THAT(run_with({with_cuda}).err, HasSubstr("is of CUDA 11, and this orchard was built with CUPTI of CUDA"));
    set("FAKE_CUPTI", "no_subscriber");
    const outcome other = run_with({with_cuda});
    EXPECT_EQ(other.code, 2);
    EXPECT_THAT(other.err, HasSubstr("MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED: another tool"));
    set("FAKE_CUPTI", "no_kernels,no_unified");
    const outcome some = run_with({with_cuda, "records"});
    EXPECT_EQ(some.code, 0) << some.err;
    EXPECT_THAT(some.out, HasSubstr("not recorded: kernels: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES: the driver lets"));
    EXPECT_THAT(some.out, HasSubstr("not recorded: unified memory: CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED"));
    EXPECT_THAT(some.out, Not(HasSubstr("walk(int*)")));
    EXPECT_THAT(some.out, HasSubstr("copy, host to device"));
    set("FAKE_CUPTI", "few_counters");
    EXPECT_THAT(run_with({with_cuda, "records"}).out, HasSubstr("this CUPTI does not report thrashing"));
}

TEST_F(profile_command, says_what_is_lost) {
    set("FAKE_CUPTI", "dropped");
    EXPECT_THAT(run_with({with_cuda, "records"}).out, HasSubstr("CUPTI has dropped 7 records"));
    set("FAKE_CUPTI", "broken");
    const outcome broken = run_with({with_cuda, "records"});
    EXPECT_THAT(broken.out, HasSubstr("bytes of CUPTI's buffers could not be read"));
    EXPECT_THAT(broken.out, HasSubstr("walk(int*)"));  // the first record
    set("FAKE_CUPTI", "");
    EXPECT_THAT(run_with({"--limit", "64", with_cuda, "records"}).out, HasSubstr("records are beyond --limit"));
}

TEST_F(profile_command, samples_the_program_counter) {
    const ordered_json all = document_of({"--samples", with_cuda, "records"});
    const auto& samples = all.at("samples");
    // Each of the reads of the library's gives 30, 70 and 10; the last in a function that the kernel calls.
    const auto rows = samples.at("functions");
    ASSERT_EQ(rows.size(), 3u);
    EXPECT_EQ(rows[0].at("function"), "walk(int*)");
    EXPECT_EQ(rows[1].at("function"), "orchard::device::small_alloc()");
    EXPECT_EQ(rows[2].at("function"), "orchard::device::search_page()");
    const int reads = rows[2].at("samples").get<int>() / 10;
    EXPECT_GT(reads, 0);
    EXPECT_EQ(rows[0].at("samples"), 70 * reads);
    EXPECT_EQ(rows[1].at("samples"), 30 * reads);
    EXPECT_EQ(samples.at("allocator"), 40 * reads);
    EXPECT_GT(samples.at("dropped"), 0);
    set("FAKE_CUPTI", "no_crc");
    const ordered_json by_kernel = document_of({"--samples", with_cuda, "records"});
    EXPECT_EQ(by_kernel.at("samples").at("functions").size(), 2u);
    set("FAKE_CUPTI", "");
    EXPECT_EQ(document_of({with_cuda, "records"}).at("samples").at("all"), 0);
    set("FAKE_CUPTI", "no_samples");
    const outcome refused = run_with({"--samples", with_cuda});
    EXPECT_EQ(refused.code, 0);
    EXPECT_THAT(refused.out, HasSubstr("not available here; use ncu"));
    EXPECT_THAT(refused.out, HasSubstr("samples of the program counter: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"));
}

TEST_F(profile_command, joins_unified_memory_with_a_heap) {
    const ordered_json all = document_of({with_cuda, "heap"});
    EXPECT_EQ(all.at("heaps"), 1);
    ASSERT_EQ(all.at("owners").size(), 1u) << all.dump(1);
    EXPECT_EQ(all.at("owners")[0].at("owner"), "heap 0: chunks");
    EXPECT_EQ(all.at("owners")[0].at("to_device_bytes"), 8192);
}

TEST_F(profile_command, follows_children) {
    const std::string both = with_cuda + " records; " + with_cuda + " records fork";
    const ordered_json all = document_of({"sh", "-c", both});
    EXPECT_EQ(all.at("processes").size(), 2u);
    EXPECT_EQ(all.at("rows")[0].at("launches"), 4);
    EXPECT_EQ(all.at("loss").at("unfinished_processes"), 0);
}

TEST_F(profile_command, keeps_records_and_reads_them_again) {
    const test::folder in;
    const outcome first = run_with({"--keep", in / "kept", with_cuda, "records"});
    EXPECT_EQ(first.code, 0) << first.err;
    const outcome again = run_with({"--read", in / "kept"});
    EXPECT_EQ(again.code, 0) << again.err;
    EXPECT_EQ(first.out.substr(first.out.find("1 process")), again.out);
    const outcome mixed = run_with({"--keep", in / "kept", with_cuda});
    EXPECT_EQ(mixed.code, 2);
    EXPECT_THAT(mixed.err, HasSubstr("has records of an earlier run"));
}

TEST_F(profile_command, gives_a_program_two_names_and_no_more) {
    // The recorder's names are visible to all of the program: one of the C++ library's would take the place of others.
    const std::string recorder = (programs().parent_path().parent_path() / "liborchard_profile.so").string();
    FILE* names = ::popen(("nm -D --defined-only " + recorder + " 2>&1").c_str(), "r");
    ASSERT_NE(names, nullptr);
    std::string text;
    for (int c = 0; (c = std::fgetc(names)) != EOF;) {
        text += static_cast<char>(c);
    }
    if (::pclose(names) != 0) {
        GTEST_SKIP() << "no nm here";
    }
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
    EXPECT_THAT(text, HasSubstr(" InitializeInjection\n"));
    EXPECT_THAT(text, HasSubstr(" orchard_profile_heap_1\n"));
}

TEST_F(profile_command, leaves_no_folder_behind) {
    const test::folder in;
    set("TMPDIR", in.path());
    EXPECT_EQ(run_with({with_cuda, "records"}).code, 0);
    EXPECT_TRUE(fs::is_empty(in.path()));
    set("TMPDIR", in / "none");
    EXPECT_THAT(run_with({with_cuda}).err, HasSubstr("no folder for the records can be made"));
    ::unsetenv("TMPDIR");
}

// Without CUPTI, too.

TEST(profile_without_cupti, says_so) {
    const testing_support::clean_environment environment;
    if (fs::exists(with_cuda)) {
        GTEST_SKIP() << "built with CUPTI's header";
    }
    const outcome result = run_with({"true"});
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr("this orchard was built without CUPTI"));
}

TEST(profile_arguments, are_checked) {
    const testing_support::clean_environment environment;
    EXPECT_EQ(run_with({}).code, 2);
    EXPECT_THAT(run_with({}).err, HasSubstr("no program is given"));
    EXPECT_THAT(run_with({"--read", "a", "true"}).err, HasSubstr("leave the program out"));
    EXPECT_THAT(run_with({"--limit", "much", "true"}).err, HasSubstr("--limit: "));
    EXPECT_THAT(run_with({"--bogus", "true"}).err, HasSubstr("--bogus"));
}

TEST(profile_read, names_a_wrong_file) {
    const test::folder in;
    EXPECT_THAT(run_with({"--read", in / "none"}).err, HasSubstr("none: cannot be read"));
    EXPECT_THAT(run_with({"--read", in.path()}).err, HasSubstr("it has no files of records"));
    std::ofstream(in / "a.records") << "noise";
    const outcome noise = run_with({"--read", in.path()});
    EXPECT_EQ(noise.code, 2);
    EXPECT_EQ(noise.out, "");
    EXPECT_THAT(noise.err, HasSubstr("a.records: 5 bytes are no file of records"));
}

TEST(profile_read, prints_a_file) {
    const test::folder in;
    std::ofstream(in / "a.records") << test::file_with(
        [](record_writer& w) { w.write(std::vector{test::kernel(w.name("_Z4walkPi"), 1, 1001)}); });
    const outcome result = run_with({"--read", in / "a.records"});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("walk(int*)"));
}

}  // namespace
}  // namespace orchard::profiling
