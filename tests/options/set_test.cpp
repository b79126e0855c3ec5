// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "runtime/options/options.hpp"

namespace orchard {
namespace {

using testing::HasSubstr;

absl::Status set_one(const std::string& name, const std::string& text) {
    options values;
    const absl::Status status = set(values, name, text);
    if (!status.ok()) {
        EXPECT_EQ(values, options{}) << "an error must leave the options as they were";
    }
    return status;
}

TEST(options_defaults, are_those_of_the_documentation) {
    const options o;
    EXPECT_EQ(o.device, device_option::automatic);
    EXPECT_EQ(o.capacity, 0u);
    EXPECT_EQ(o.mailbox_slots, 16384);
    EXPECT_EQ(o.cached_segments, 64);
    EXPECT_EQ(o.refill_batch, 16);
    EXPECT_EQ(o.extent, 64ull << 20);
    EXPECT_EQ(o.commit_ahead, 128ull << 20);
    EXPECT_EQ(o.request_timeout, absl::Seconds(10));
    EXPECT_EQ(o.service_core, -1);
    EXPECT_EQ(o.service_spin, absl::Milliseconds(20));
    EXPECT_EQ(o.emulated_workers, 0);
    EXPECT_FALSE(o.allow_oversubscription);
    EXPECT_EQ(o.chunk_lanes, 32);
    EXPECT_TRUE(validate(o).ok());
}

struct range_case {
    const char* name;
    const char* lowest;
    const char* highest;
    const char* below;
    const char* above;
    const char* allowed;
};

// Written out again, so that a change of the table is seen.
constexpr range_case ranges[] = {
    {"capacity", "4MiB", "32TiB", "4194303", "35184372088833", "0, or 4 MiB to 32 TiB"},
    {"capacity_share", "1", "100", "0", "101", "1 to 100"},
    {"host_budget", "0", "32TiB", nullptr, "35184372088833", "0 B to 32 TiB"},
    {"move_unit", "0", "1GiB", nullptr, "1026MiB", "a multiple of 2 MiB from 0 B to 1 GiB"},
    {"range", "4MiB", "32TiB", "4194303", "35184372088833", "0, or 4 MiB to 32 TiB"},
    {"max_extent", "2MiB", "64GiB", "0", "68721573888", "a multiple of 2 MiB from 2 MiB to 64 GiB"},
    {"decay", "0", "24h", "-1ns", "24h1ns", "0 to 24h"},
    {"mailbox_slots", "4", "16384", "2", "32768", "a power of two from 4 to 16384"},
    {"cached_segments", "0", "65536", "-1", "65537", "0 to 65536"},
    {"refill_batch", "1", "63", "0", "64", "1 to 63"},
    {"extent", "2MiB", "64GiB", "0", "65538MiB", "a multiple of 2 MiB from 2 MiB to 64 GiB"},
    {"managed_limit", "0", "32TiB", nullptr, "35184372088833", "0 B to 32 TiB"},
    {"commit_ahead", "0", "32TiB", nullptr, "35184372088833", "0 B to 32 TiB"},
    {"request_timeout", "1ms", "1h", "999us", "1h1ns", "1ms to 1h"},
    {"guard_sample_rate", "0", "1000000", "-1", "1000001", "0 to 1000000"},
    {"placement_seed", "0", "1000000000", "-1", "1000000001", "0 to 1000000000"},
    {"service_core", "-1", "1023", "-2", "1024", "-1 to 1023"},
    {"service_spin", "0", "1s", "-1ns", "1001ms", "0 to 1s"},
    {"emulated_workers", "0", "1024", "-1", "1025", "0 to 1024"},
    {"chunk_lanes", "1", "32", "0", "64", "a power of two from 1 to 32"},
    {"trace_limit", "64KiB", "32TiB", "65535", "35184372088833", "64 KiB to 32 TiB"},
};

TEST(options_set, takes_both_ends_of_each_range) {
    for (const range_case& c : ranges) {
        EXPECT_TRUE(set_one(c.name, c.lowest).ok()) << set_one(c.name, c.lowest);
        EXPECT_TRUE(set_one(c.name, c.highest).ok()) << set_one(c.name, c.highest);
    }
}

TEST(options_set, refuses_what_is_beyond_each_range) {
    for (const range_case& c : ranges) {
        for (const char* text : {c.below, c.above}) {
            if (text == nullptr) {
                continue;
            }
            const absl::Status status = set_one(c.name, text);
            EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
            const std::string side = text == c.below ? "is below the minimum of " : "is above the maximum of ";
            EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(c.name) + ": \"" + text + "\" " + side));
            EXPECT_THAT(std::string(status.message()), HasSubstr(std::string("; give ") + c.allowed));
        }
    }
}

TEST(options_set, every_ranged_option_is_in_the_list_above) {
    std::size_t listed = 0;
    for (const option_info& info : option_table()) {
        for (const range_case& c : ranges) {
            listed += info.name == c.name && info.allowed == c.allowed ? 1 : 0;
        }
    }
    EXPECT_EQ(listed, std::size(ranges));
    // Switches and choices have no range: device, backing, allow_oversubscription, advice, prefetch, discard, hardened,
    // fill, portions, tails, layout, access_pattern, lane_order, mailbox_memory, nvtx, trace, trace_mode, sites.
    EXPECT_EQ(option_table().size(), std::size(ranges) + 18);
}

TEST(options_set, writes_the_field_it_names) {
    options o;
    ASSERT_TRUE(set(o, "device", "emulated").ok());
    ASSERT_TRUE(set(o, "capacity", "2GB").ok());
    ASSERT_TRUE(set(o, "mailbox_slots", "64").ok());
    ASSERT_TRUE(set(o, "cached-segments", "0").ok());
    ASSERT_TRUE(set(o, "refill_batch", "7").ok());
    ASSERT_TRUE(set(o, "extent", "6MiB").ok());
    ASSERT_TRUE(set(o, "commit-ahead", "12345").ok());
    ASSERT_TRUE(set(o, "request_timeout", "1m30s").ok());
    ASSERT_TRUE(set(o, "service_core", "3").ok());
    ASSERT_TRUE(set(o, "service-spin", "1.5ms").ok());
    ASSERT_TRUE(set(o, "emulated_workers", "2").ok());
    ASSERT_TRUE(set(o, "allow_oversubscription", "yes").ok());
    ASSERT_TRUE(set(o, "backing", "managed").ok());
    ASSERT_TRUE(set(o, "advice", "cpu_resident").ok());
    ASSERT_TRUE(set(o, "discard", "no").ok());
    options expected;
    expected.backing = backing_option::managed;
    expected.advice = managed_advice::cpu_resident;
    expected.discard = false;
    expected.device = device_option::emulated;
    expected.capacity = 2'000'000'000;
    expected.mailbox_slots = 64;
    expected.cached_segments = 0;
    expected.refill_batch = 7;
    expected.extent = 6 * mib;
    expected.commit_ahead = 12345;
    expected.request_timeout = absl::Seconds(90);
    expected.service_core = 3;
    expected.service_spin = absl::Microseconds(1500);
    expected.emulated_workers = 2;
    expected.allow_oversubscription = true;
    EXPECT_EQ(o, expected);
    EXPECT_TRUE(validate(o).ok());
}

TEST(options_set, text_is_read_back) {
    options o;
    o.capacity = 1'500'000'001;
    o.service_spin = absl::ZeroDuration();
    o.device = device_option::cuda;
    o.allow_oversubscription = true;
    options copy;
    for (const option_info& info : option_table(o)) {
        EXPECT_TRUE(set(copy, info.name, info.value).ok()) << info.name << " = " << info.value;
    }
    EXPECT_EQ(copy, o);
    EXPECT_THAT(to_text(o), HasSubstr("capacity = 1500000001 B\n"));
}

TEST(options_set, reads_devices_and_switches) {
    options o;
    for (const auto& [text, value] : {std::pair{"cuda", device_option::cuda},
                                      {"emulated", device_option::emulated},
                                      {"auto", device_option::automatic}}) {
        ASSERT_TRUE(set(o, "device", text).ok());
        EXPECT_EQ(o.device, value);
    }
    for (const auto& [text, value] : {std::pair{"true", true}, {"0", false}, {"1", true}, {"no", false}}) {
        ASSERT_TRUE(set(o, "allow_oversubscription", text).ok());
        EXPECT_EQ(o.allow_oversubscription, value);
    }
}

TEST(options_set, refuses_what_breaks_a_rule) {
    const absl::Status slots = set_one("mailbox_slots", "48");
    EXPECT_TRUE(absl::IsOutOfRange(slots));
    EXPECT_EQ(slots.message(), "mailbox_slots: \"48\" is not a power of two; give a power of two from 4 to 16384");
    const absl::Status extent = set_one("extent", "3MiB");
    EXPECT_TRUE(absl::IsOutOfRange(extent));
    EXPECT_EQ(extent.message(),
              "extent: \"3MiB\" is not a multiple of 2 MiB; give a multiple of 2 MiB from 2 MiB to 64 GiB");
}

TEST(options_set, refuses_what_is_no_value) {
    const std::tuple<const char*, const char*, const char*> cases[] = {
        {"device", "gpu", "device: \"gpu\" is not a device; give auto, cuda or emulated"},
        {"device", "", "device: \"\" is not a device; give auto, cuda or emulated"},
        {"device", "CUDA", "device: \"CUDA\" is not a device; give auto, cuda or emulated"},
        {"capacity", "big", "capacity: \"big\" is not a size in bytes: it does not start with a number"},
        {"extent", "2M", "extent: \"2M\" is not a size in bytes: \"M\" is not a unit"},
        {"commit_ahead", "-1", "commit_ahead: \"-1\" is not a size in bytes: it is negative"},
        {"refill_batch", "two", "refill_batch: \"two\" is not a whole number of 32 bits; give 1 to 63"},
        {"refill_batch", "", "refill_batch: \"\" is not a whole number of 32 bits; give 1 to 63"},
        {"refill_batch", "1.5", "refill_batch: \"1.5\" is not a whole number of 32 bits; give 1 to 63"},
        {"mailbox_slots", "4294967300", "mailbox_slots: \"4294967300\" is not a whole number of 32 bits; give a power"},
        {"request_timeout", "10",
         "request_timeout: \"10\" is not a duration; write a number and a unit, such as 500ms or 10s, from 1ms to 1h"},
        {"request_timeout", "soon", "request_timeout: \"soon\" is not a duration"},
        {"service_spin", "", "service_spin: \"\" is not a duration"},
        {"allow_oversubscription", "maybe", "allow_oversubscription: \"maybe\" is not a switch; give true or false"},
        {"allow_oversubscription", "", "allow_oversubscription: \"\" is not a switch; give true or false"},
    };
    for (const auto& [name, text, message] : cases) {
        const absl::Status status = set_one(name, text);
        EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
        EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    }
}

TEST(options_set, an_infinite_time_is_out_of_range) {
    EXPECT_TRUE(absl::IsOutOfRange(set_one("request_timeout", "inf")));
    EXPECT_TRUE(absl::IsOutOfRange(set_one("request_timeout", "-inf")));
}

TEST(options_set, an_unknown_name_is_answered_with_the_nearest) {
    const absl::Status status = set_one("capacty", "1GiB");
    EXPECT_TRUE(absl::IsNotFound(status));
    EXPECT_EQ(status.message(), "capacty: no such option (nearest: capacity); `orchard options` lists all");
    EXPECT_TRUE(absl::IsNotFound(set_one("", "1")));
}

}  // namespace
}  // namespace orchard
