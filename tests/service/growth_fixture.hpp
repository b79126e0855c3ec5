// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A service without committed segments, which grows when the test requests it.

#include <gtest/gtest.h>

#include "tests/support/service_rig.hpp"

namespace orchard::rig {

inline service_setup nothing_committed(std::uint32_t ahead = 0) {
    service_setup s;
    s.committed_at_start = 0;
    s.extent = 8;
    s.ahead = ahead;
    return s;
}

class ServiceGrowth : public ::testing::Test {
protected:
    explicit ServiceGrowth(std::uint32_t ahead = 0) : host_{nothing_committed(ahead)} {}

    void grow_all() {
        while (host_.grower.step()) {
        }
    }
    void expect_nothing() { EXPECT_FALSE(client_.take().has_value()); }
    mailbox::response expect_response(ring_client::id id) {
        const auto a = client_.take();
        EXPECT_TRUE(a.has_value());
        if (!a) {
            return {};
        }
        EXPECT_EQ(id_of(*a), id);
        return *a;
    }
    void expect_grant(ring_client::id id, std::uint32_t first) {
        const mailbox::response a = expect_response(id);
        EXPECT_EQ(a.status, mailbox::response_status::granted);
        EXPECT_EQ(a.run.first, segment_index{first});
    }
    void expect_valid() { EXPECT_TRUE(host_.service.validate().ok()) << host_.service.validate(); }
    std::uint32_t poll() { return host_.service.poll_once(); }

    service_rig host_;
    ring_client client_{host_.box};
};

}  // namespace orchard::rig
