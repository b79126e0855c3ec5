// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/options/option_fields.hpp"
#include "runtime/options/options.hpp"
#include "tests/options/clean_environment.hpp"

namespace orchard {
namespace {

using testing::HasSubstr;
using testing_support::clean_environment;

TEST(options_environment, without_variables_gives_the_defaults) {
    clean_environment environment;
    EXPECT_EQ(options::from_environment().value(), options{});
}

TEST(options_environment, every_option_has_a_variable) {
    clean_environment environment;
    environment.set("ORCHARD_DEVICE", "cuda");
    environment.set("ORCHARD_CAPACITY", "512MiB");
    environment.set("ORCHARD_MAILBOX_SLOTS", "8");
    environment.set("ORCHARD_CACHED_SEGMENTS", "5");
    environment.set("ORCHARD_REFILL_BATCH", "63");
    environment.set("ORCHARD_EXTENT", "2MiB");
    environment.set("ORCHARD_COMMIT_AHEAD", "0");
    environment.set("ORCHARD_REQUEST_TIMEOUT", "500ms");
    environment.set("ORCHARD_SERVICE_CORE", "0");
    environment.set("ORCHARD_SERVICE_SPIN", "1ms");
    environment.set("ORCHARD_EMULATED_WORKERS", "3");
    environment.set("ORCHARD_ALLOW_OVERSUBSCRIPTION", "true");
    options expected;
    expected.device = device_option::cuda;
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
    EXPECT_EQ(options::from_environment().value(), expected);
}

TEST(options_environment, applies_on_top_of_what_is_there) {
    clean_environment environment;
    environment.set("ORCHARD_REFILL_BATCH", "2");
    options values;
    values.refill_batch = 3;
    values.capacity = 8 * mib;
    ASSERT_TRUE(apply_environment(values).ok());
    EXPECT_EQ(values.refill_batch, 2);
    EXPECT_EQ(values.capacity, 8 * mib);
}

TEST(options_environment, an_error_names_the_variable_and_changes_nothing) {
    clean_environment environment;
    environment.set("ORCHARD_REFILL_BATCH", "2");
    environment.set("ORCHARD_CAPACITY", "3MiB");
    options values;
    const absl::Status status = apply_environment(values);
    EXPECT_TRUE(absl::IsOutOfRange(status));
    EXPECT_EQ(status.message(), "ORCHARD_CAPACITY: \"3MiB\" is below the minimum of 4 MiB; give 0, or 4 MiB to 32 TiB");
    EXPECT_EQ(values, options{});
    EXPECT_EQ(options::from_environment().status(), status);
}

TEST(options_environment, text_that_is_no_value_is_an_error) {
    clean_environment environment;
    environment.set("ORCHARD_REQUEST_TIMEOUT", "");
    const absl::Status status = options::from_environment().status();
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_THAT(std::string(status.message()), HasSubstr("ORCHARD_REQUEST_TIMEOUT: \"\" is not a duration"));
}

TEST(options_environment, an_unknown_variable_has_no_effect_and_is_reported_with_the_nearest) {
    clean_environment environment;
    environment.set("ORCHARD_CAPCITY", "1GiB");
    environment.set("ORCHARD_FOO", "90");
    environment.set("ORCHARD_REFILL_BATCH", "2");
    std::vector<std::string> foreign;
    options expected;
    expected.refill_batch = 2;
    EXPECT_EQ(options::from_environment(&foreign).value(), expected);
    EXPECT_THAT(foreign, testing::UnorderedElementsAre(
                             "ORCHARD_CAPCITY: no such option (nearest: ORCHARD_CAPACITY); `orchard options` lists all",
                             "ORCHARD_FOO: no such option; `orchard options` lists all"));
    EXPECT_EQ(options::from_environment().value(), expected);
}

TEST(options_environment, of_a_privileged_program_is_ignored_and_causes_no_error) {
    for (const char* const text : {"ORCHARD_REFILL_BATCH=2", "ORCHARD_REFILL_BATCH=nonsense"}) {
        const char* const assignments[] = {text, nullptr};
        options values;
        values.refill_batch = 3;
        const options before = values;
        EXPECT_TRUE(detail::apply_environment(values, assignments, true).ok()) << text;
        EXPECT_EQ(values, before) << text;
        const absl::Status read = detail::apply_environment(values, assignments, false);
        EXPECT_TRUE(!read.ok() || values.refill_batch == 2) << text << ": without privilege, the same text must matter";
    }
}

TEST(options_environment, names_are_upper_case) {
    clean_environment environment;
    environment.set("ORCHARD_capacity", "1GiB");
    EXPECT_EQ(options::from_environment().value(), options{});
}

TEST(options_environment, variables_of_build_systems_are_ignored) {
    clean_environment environment;
    for (const char* name : {"ORCHARD_HAS_CUDA", "ORCHARD_SOURCE_DIR", "ORCHARD_CHECKED", "ORCHARD_CUDA_ARCHITECTURES",
                             "ORCHARD_NO_PACKAGES"}) {
        environment.set(name, "whatever");
        EXPECT_THAT(options_markdown(), HasSubstr(name)) << "the documentation must say so";
    }
    // Those of `orchard profile`, which no user sets.
    for (const char* name :
         {"ORCHARD_PROFILE_FOLDER", "ORCHARD_PROFILE_CUPTI", "ORCHARD_PROFILE_SAMPLES", "ORCHARD_PROFILE_LIMIT"}) {
        environment.set(name, "whatever");
    }
    std::vector<std::string> foreign;
    EXPECT_EQ(options::from_environment(&foreign).value(), options{});
    EXPECT_THAT(foreign, testing::IsEmpty());
}

}  // namespace
}  // namespace orchard
