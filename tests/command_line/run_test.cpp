// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>

#include "runtime/cli/command_line.hpp"
#include "runtime/cli/options_cli.hpp"
#include "runtime/machine/machine_info.hpp"
#include "runtime/nvtx/domain.hpp"
#include "tests/options/clean_environment.hpp"
#include "tests/support/run_command.hpp"

namespace orchard::command_line {
namespace {

using test::outcome;
using test::run_with;
using testing::HasSubstr;
using testing::StartsWith;

// A subcommand with all kinds of arguments; each run makes new ones.
struct probe_arguments {
    options heap;
    int steps = 1;
    std::string graph;
};
std::shared_ptr<probe_arguments> probe;
absl::Status probe_result;

subcommand probe_command() {
    probe = std::make_shared<probe_arguments>();
    const auto a = probe;
    return {"probe", "Takes part in the tests", "Tests",
            [a](CLI::App& app) {
                add_to(app, a->heap);
                app.add_option("--steps", a->steps, "Steps")->check(CLI::Range(1, 100));
                app.add_option("graph", a->graph, "A file")->required();
            },
            [a] {
                std::cout << "probed " << a->graph << " " << a->steps << "\n";
                return exit_code(probe_result);
            }};
}
const registrar probe_registrar{probe_command};
const registrar bare_registrar{
    +[] { return subcommand{.name = "bare", .help = "Takes nothing", .declare = {}, .run = [] { return 7; }}; }};

class command_line_run : public testing::Test {
protected:
    /// Bad input: exit code 2, nothing on standard output, and just this line on standard error.
    static void expect_refused(const std::vector<std::string>& arguments, const std::string& line) {
        const outcome result = run_with(arguments);
        EXPECT_EQ(result.code, 2) << line;
        EXPECT_EQ(result.out, "") << line;
        EXPECT_EQ(result.err, line + "\n");
    }

    void SetUp() override { probe_result = absl::OkStatus(); }

    testing_support::clean_environment environment_;
};

TEST_F(command_line_run, runs_the_subcommand_with_its_flags) {
    const outcome result = run_with({"probe", "--steps", "3", "--capacity", "8MiB", "roads.mtx"});
    EXPECT_EQ(result.code, 0);
    EXPECT_EQ(result.out, "probed roads.mtx 3\n");
    EXPECT_EQ(result.err, "");
    EXPECT_EQ(probe->heap.capacity, 8 * mib);
}

TEST_F(command_line_run, keeps_no_argument_of_an_earlier_run) {
    (void)run_with({"probe", "--steps", "3", "--capacity", "8MiB", "roads.mtx"});
    EXPECT_EQ(run_with({"probe", "rivers.mtx"}).out, "probed rivers.mtx 1\n");
    EXPECT_EQ(probe->heap.capacity, options{}.capacity);
}

TEST_F(command_line_run, warns_of_a_variable_that_names_no_option) {
    environment_.set("ORCHARD_CAPCITY", "1GiB");
    const outcome result = run_with({"probe", "roads.mtx"});
    EXPECT_EQ(result.code, 0);
    EXPECT_EQ(result.out, "probed roads.mtx 1\n");
    EXPECT_EQ(result.err,
              "orchard: warning: ORCHARD_CAPCITY: no such option (nearest: ORCHARD_CAPACITY); `orchard options` lists "
              "all\n");
    EXPECT_EQ(run_with({"bare"}).err, "") << "it has no options of a heap";
}

TEST_F(command_line_run, returns_what_the_subcommand_returns) { EXPECT_EQ(run_with({"bare"}).code, 7); }

TEST_F(command_line_run, a_subcommand_may_be_an_argument_of_another) {
    EXPECT_EQ(run_with({"probe", "info"}).out, "probed info 1\n");
}

TEST_F(command_line_run, help_goes_to_standard_output) {
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{"--help"}, {"-h"}, {"probe", "--help"}, {"probe", "-h"}}) {
        const outcome result = run_with(arguments);
        EXPECT_EQ(result.code, 0);
        EXPECT_EQ(result.err, "");
        EXPECT_THAT(result.out, HasSubstr("Usage: orchard "));
    }
    EXPECT_THAT(run_with({"--help"}).out, HasSubstr("Tests:\n  probe "));
    EXPECT_THAT(run_with({"--help"}).out, HasSubstr("About:\n  info "));
    EXPECT_THAT(run_with({"probe", "--help"}).out, HasSubstr("--request-timeout"));
}

TEST_F(command_line_run, help_has_no_notes_of_the_parser) {
    for (const char* command : {"probe", "info", "options"}) {
        const std::string out = run_with({command, "--help"}).out;
        for (const char* note : {"{false}", "Excludes", "REQUIRED", "UINT", "TEXT", " INT"}) {
            EXPECT_EQ(out.find(note), std::string::npos) << command << ": " << note;
        }
    }
    const std::string out = run_with({"probe", "--help"}).out;
    EXPECT_THAT(out, HasSubstr("--steps N  "));
    EXPECT_THAT(out, HasSubstr("--prefetch,--no-prefetch  "));
}

TEST_F(command_line_run, help_is_given_beside_a_mistake_and_in_a_wrong_environment) {
    environment_.set("ORCHARD_CAPACITY", "nonsense");
    const outcome result = run_with({"probe", "--steps", "0", "--help"});
    EXPECT_EQ(result.code, 0);
    EXPECT_EQ(result.err, "");
    EXPECT_THAT(result.out, HasSubstr("Usage: orchard probe"));
}

TEST_F(command_line_run, version_names_the_program_and_its_cuda_support) {
    const outcome result = run_with({"--version"});
    EXPECT_EQ(result.code, 0);
    EXPECT_EQ(result.out, "orchard 0.1.0 (" + cuda_support() + "; " + std::string(nvtx::description()) + ")\n");
    EXPECT_THAT(cuda_support(), HasSubstr("CUDA"));
}

TEST_F(command_line_run, the_version_is_that_of_the_build_system) {
    EXPECT_THAT(run_with({"--version"}).out, StartsWith("orchard " ORCHARD_VERSION " "));
}

TEST_F(command_line_run, refuses_a_wrong_subcommand) {
    expect_refused({}, "orchard: no subcommand given; name one, such as `orchard info`; run `orchard --help`");
    expect_refused({"prob", "--steps", "3"},
                   "orchard: unknown subcommand \"prob\" (nearest: probe); run `orchard --help`");
    expect_refused({""}, "orchard: unknown subcommand \"\"; run `orchard --help`");
    expect_refused({"frobnicate"}, "orchard: unknown subcommand \"frobnicate\"; run `orchard --help`");
}

TEST_F(command_line_run, refuses_an_unknown_option) {
    expect_refused({"--versoin"}, "orchard: unknown option --versoin (nearest: --version); run `orchard --help`");
    expect_refused({"--versoin", "bare"},
                   "orchard: unknown option --versoin (nearest: --version); run `orchard --help`");
    expect_refused({"probe", "--stpes", "3"},
                   "orchard probe: unknown option --stpes (nearest: --steps); run `orchard probe --help`");
    expect_refused({"probe", "--capcity=3GiB"},
                   "orchard probe: unknown option --capcity=3GiB (nearest: --capacity); run `orchard probe --help`");
    expect_refused({"bare", "-z"}, "orchard bare: unknown option -z; run `orchard bare --help`");
}

TEST_F(command_line_run, refuses_an_argument_too_many) {
    expect_refused({"probe", "a.mtx", "b.mtx"},
                   "orchard probe: unexpected argument \"b.mtx\"; leave it out, or write it after the option that it "
                   "belongs to; run `orchard probe --help`");
}

TEST_F(command_line_run, refuses_bad_values) {
    expect_refused({"probe", "g", "--steps", "0"},
                   "orchard probe: --steps: Value 0 not in range 1 to 100; run `orchard probe --help`");
    expect_refused({"probe", "g", "--steps", "many"},
                   "orchard probe: --steps: Value many not in range 1 to 100; run `orchard probe --help`");
    expect_refused({"probe", "g", "--capacity", "1MiB"},
                   "orchard probe: --capacity: \"1MiB\" is below the minimum of 4 MiB; give 0, or 4 MiB to 32 TiB; run "
                   "`orchard probe --help`");
    expect_refused({"probe", "g", "--allow-oversubscription=maybe"},
                   "orchard probe: --allow-oversubscription: \"maybe\" is not a switch; give true or false; run "
                   "`orchard probe --help`");
}

TEST_F(command_line_run, refuses_what_is_missing) {
    expect_refused({"probe"}, "orchard probe: graph is required; run `orchard probe --help`");
    const outcome result = run_with({"probe", "g", "--steps"});
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr("--steps"));
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1);
}

TEST_F(command_line_run, refuses_a_wrong_environment) {
    environment_.set("ORCHARD_REFILL_BATCH", "99");
    expect_refused(
        {"probe", "g"},
        "orchard probe: ORCHARD_REFILL_BATCH: \"99\" is above the maximum of 63; give 1 to 63; run `orchard probe "
        "--help`");
    EXPECT_EQ(run_with({"bare"}).code, 7) << "a subcommand without a heap does not look at it";
}

TEST_F(command_line_run, stays_on_one_line_whatever_is_typed) {
    expect_refused({"pro\nbe\x1b[31m"}, "orchard: unknown subcommand \"pro\\nbe\\033[31m\"; run `orchard --help`");
    expect_refused({"probe", "g", "--steps", "1\n2"},
                   "orchard probe: --steps: Value 1\\n2 not in range 1 to 100; run `orchard probe --help`");
    expect_refused(
        {"probe", "g", "--capacity", "1\n2"},
        "orchard probe: --capacity: \"1\\n2\" is not a size in bytes: \"2\" is not a unit; write a number "
        "and a unit, such as 512MiB or 4GB (KiB, MiB, GiB, TiB are powers of 1024, KB, MB, GB, TB are powers "
        "of 1000); run `orchard probe --help`");
}

TEST_F(command_line_run, a_status_of_the_subcommand_becomes_a_line_and_an_exit_code) {
    probe_result = absl::NotFoundError("roads.mtx: no such file; check the name");
    const outcome result = run_with({"probe", "roads.mtx"});
    EXPECT_EQ(result.code, 2);
    EXPECT_EQ(result.err, "orchard: roads.mtx: no such file; check the name\n");
}

TEST_F(command_line_run, standard_output_that_cannot_be_written_is_an_error) {
    std::cout.setstate(std::ios::badbit);
    const outcome result = run_with({"info"});
    std::cout.clear();
    EXPECT_EQ(result.code, 1);
    EXPECT_EQ(result.err, "orchard: standard output could not be written; free space, or redirect it elsewhere\n");
}

TEST(command_line_exit_code, is_2_for_bad_input_and_1_for_failures) {
    for (int code = 0; code <= 16; ++code) {
        const absl::Status status(static_cast<absl::StatusCode>(code), "why");
        testing::internal::CaptureStderr();
        const int exit = exit_code(status);
        const std::string err = testing::internal::GetCapturedStderr();
        const bool bad_input = absl::IsInvalidArgument(status) || absl::IsNotFound(status) ||
                               absl::IsFailedPrecondition(status) || absl::IsOutOfRange(status) ||
                               absl::IsDataLoss(status);
        EXPECT_EQ(exit, status.ok() ? 0 : bad_input ? 2 : 1) << status;
        EXPECT_EQ(err, status.ok() ? "" : "orchard: why\n");
    }
}

TEST(command_line_exit_code, keeps_to_one_line) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(exit_code(absl::InternalError("lane 0 waits\nlane 1 waits")), 1);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "orchard: lane 0 waits\\nlane 1 waits\n");
}

}  // namespace
}  // namespace orchard::command_line
