// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include <gtest/gtest.h>

#include <limits>

#include "runtime/options/options.hpp"

namespace orchard {
namespace {

template <class T>
void expect_refused(T options::*field, T value, const char* message) {
    options values;
    values.*field = value;
    const absl::Status status = validate(values);
    EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
    EXPECT_EQ(status.message(), message);
}

TEST(options_validate, the_defaults_are_valid_with_any_legal_capacity) {
    for (const std::uint64_t capacity : {4 * mib, 4 * mib + 1, 100 * mib, 2'000'000'000 + 0 * mib, 32 * tib}) {
        options values;
        values.capacity = capacity;
        EXPECT_TRUE(validate(values).ok()) << capacity;
    }
}

TEST(options_validate, refuses_each_field_by_name_value_and_remedy) {
    expect_refused(&options::capacity, 3 * mib,
                   "capacity: 3 MiB is below the minimum of 4 MiB; give 0, or 4 MiB to 32 TiB");
    expect_refused(&options::capacity, std::uint64_t{5000},
                   "capacity: 5000 B is below the minimum of 4 MiB; give 0, or 4 MiB to 32 TiB");
    expect_refused(&options::capacity, 33 * tib,
                   "capacity: 33 TiB is above the maximum of 32 TiB; give 0, or 4 MiB to 32 TiB");
    expect_refused(&options::refill_batch, 0, "refill_batch: 0 is below the minimum of 1; give 1 to 63");
    expect_refused(&options::mailbox_slots, std::numeric_limits<int>::min(),
                   "mailbox_slots: -2147483648 is below the minimum of 4; give a power of two from 4 to 16384");
    expect_refused(&options::mailbox_slots, 5,
                   "mailbox_slots: 5 is not a power of two; give a power of two from 4 to 16384");
    expect_refused(&options::cached_segments, 65537,
                   "cached_segments: 65537 is above the maximum of 65536; give 0 to 65536");
    expect_refused(&options::refill_batch, 64, "refill_batch: 64 is above the maximum of 63; give 1 to 63");
    expect_refused(&options::extent, 2 * mib + 4096,
                   "extent: 2101248 B is not a multiple of 2 MiB; give a multiple of 2 MiB from 2 MiB to 64 GiB");
    expect_refused(&options::commit_ahead, 64 * tib,
                   "commit_ahead: 64 TiB is above the maximum of 32 TiB; give 0 B to 32 TiB");
    expect_refused(&options::request_timeout, absl::ZeroDuration(),
                   "request_timeout: 0 is below the minimum of 1ms; give 1ms to 1h");
    expect_refused(&options::request_timeout, absl::InfiniteDuration(),
                   "request_timeout: inf is above the maximum of 1h; give 1ms to 1h");
    expect_refused(&options::service_core, -2, "service_core: -2 is below the minimum of -1; give -1 to 1023");
    expect_refused(&options::service_spin, absl::Seconds(2),
                   "service_spin: 2s is above the maximum of 1s; give 0 to 1s");
    expect_refused(&options::emulated_workers, 1025,
                   "emulated_workers: 1025 is above the maximum of 1024; give 0 to 1024");
    expect_refused(&options::device, static_cast<device_option>(7),
                   "device: 7 is not a device; give auto, cuda or emulated");
    expect_refused(&options::device, static_cast<device_option>(-1),
                   "device: -1 is not a device; give auto, cuda or emulated");
}

TEST(options_validate, names_the_first_of_several) {
    options values;
    values.refill_batch = 0;
    values.capacity = 1;
    EXPECT_EQ(validate(values).message(), "capacity: 1 B is below the minimum of 4 MiB; give 0, or 4 MiB to 32 TiB");
}

}  // namespace
}  // namespace orchard
