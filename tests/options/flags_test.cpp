// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "runtime/cli/options_cli.hpp"
#include "tests/options/clean_environment.hpp"

namespace orchard {
namespace {

using testing::HasSubstr;
using testing_support::clean_environment;

options parse(std::vector<std::string> arguments, options values = {}) {
    CLI::App app;
    add_to(app, values);
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
    app.parse(arguments);
    return values;
}

std::string error_of(const std::vector<std::string>& arguments) {
    try {
        parse(arguments);
    } catch (const CLI::ParseError& error) {
        return error.what();
    }
    return "no error";
}

class options_flags : public testing::Test {
protected:
    clean_environment environment_;
};

/// The defaults of commands, which limit managed memory.
options defaults() {
    options values;
    values.managed_limit = std::uint64_t{2} << 30;
    return values;
}

TEST_F(options_flags, without_flags_the_defaults_stand) { EXPECT_EQ(parse({}), defaults()); }

TEST_F(options_flags, every_option_has_a_flag) {
    options expected = defaults();
    expected.device = device_option::emulated;
    expected.capacity = 512 * mib;
    expected.mailbox_slots = 8;
    expected.cached_segments = 5;
    expected.refill_batch = 63;
    expected.extent = 2 * mib;
    expected.commit_ahead = 0;
    expected.request_timeout = absl::Milliseconds(500);
    expected.service_core = 0;
    expected.service_spin = absl::Milliseconds(1);
    expected.emulated_workers = 3;
    expected.allow_oversubscription = true;
    EXPECT_EQ(parse({"--device",
                     "emulated",
                     "--capacity=512MiB",
                     "--mailbox-slots",
                     "8",
                     "--cached-segments",
                     "5",
                     "--refill-batch",
                     "63",
                     "--extent",
                     "2MiB",
                     "--commit-ahead",
                     "0",
                     "--request-timeout",
                     "500ms",
                     "--service-core",
                     "0",
                     "--service-spin",
                     "1ms",
                     "--emulated-workers",
                     "3",
                     "--allow-oversubscription"}),
              expected);
}

TEST_F(options_flags, a_negative_number_is_a_value) {
    options values;
    values.service_core = 5;
    EXPECT_EQ(parse({"--service-core", "-1"}, values).service_core, -1);
    EXPECT_EQ(parse({"--service-core=-1"}, values).service_core, -1);
}

TEST_F(options_flags, the_last_one_counts) {
    EXPECT_EQ(parse({"--service-core", "2", "--service-core", "3"}).service_core, 3);
    EXPECT_FALSE(parse({"--allow-oversubscription", "--no-allow-oversubscription"}).allow_oversubscription);
    EXPECT_TRUE(parse({"--no-allow-oversubscription", "--allow-oversubscription"}).allow_oversubscription);
}

TEST_F(options_flags, a_switch_takes_a_value_after_an_equals_sign_only) {
    EXPECT_TRUE(parse({"--allow-oversubscription=true"}).allow_oversubscription);
    options values;
    values.allow_oversubscription = true;
    EXPECT_FALSE(parse({"--allow-oversubscription=false"}, values).allow_oversubscription);
    EXPECT_FALSE(parse({"--no-allow-oversubscription"}, values).allow_oversubscription);
    EXPECT_TRUE(parse({}, values).allow_oversubscription);
    EXPECT_EQ(error_of({"--allow-oversubscription=maybe"}),
              "--allow-oversubscription: \"maybe\" is not a switch; give true or false");
    EXPECT_EQ(error_of({"--no-allow-oversubscription=maybe"}),
              "--allow-oversubscription: \"maybe\" is not a switch; give true or false");
}

TEST_F(options_flags, a_flag_wins_over_the_variable_and_the_variable_over_the_default) {
    environment_.set("ORCHARD_SERVICE_CORE", "2");
    environment_.set("ORCHARD_REFILL_BATCH", "9");
    options values;
    values.refill_batch = 3;
    values.cached_segments = 7;
    const options parsed = parse({"--service-core", "4"}, values);
    EXPECT_EQ(parsed.service_core, 4);
    EXPECT_EQ(parsed.refill_batch, 9);
    EXPECT_EQ(parsed.cached_segments, 7);
}

TEST_F(options_flags, an_error_names_flag_value_and_remedy) {
    EXPECT_EQ(error_of({"--capacity", "3MiB"}),
              "--capacity: \"3MiB\" is below the minimum of 4 MiB; give 0, or 4 MiB to 32 TiB");
    EXPECT_EQ(error_of({"--refill-batch", "two"}),
              "--refill-batch: \"two\" is not a whole number of 32 bits; give 1 to 63");
    EXPECT_EQ(error_of({"--device", "gpu"}), "--device: \"gpu\" is not a device; give auto, cuda or emulated");
    EXPECT_EQ(error_of({"--device", ""}), "--device: \"\" is not a device; give auto, cuda or emulated");
}

TEST_F(options_flags, an_error_of_the_environment_names_the_variable) {
    environment_.set("ORCHARD_REFILL_BATCH", "99");
    EXPECT_EQ(error_of({}), "ORCHARD_REFILL_BATCH: \"99\" is above the maximum of 63; give 1 to 63");
}

TEST_F(options_flags, the_help_shows_default_and_range) {
    options values;
    values.capacity = 8 * mib;
    CLI::App app;
    add_to(app, values);
    const std::string help = app.help();
    for (const option_info& info : option_table(values)) {
        EXPECT_THAT(help, HasSubstr(info.flag));
        EXPECT_THAT(help, HasSubstr(info.is_switch ? "--no-allow-oversubscription" : "=" + info.value));
    }
    EXPECT_THAT(help, HasSubstr("(0, or 4 MiB to 32 TiB)"));
}

}  // namespace
}  // namespace orchard
