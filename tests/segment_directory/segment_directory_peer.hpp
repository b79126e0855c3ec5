// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Reaches into a `segment_directory`, so that tests can plant the faults that `validate` must find.

#include "host/segment_directory.hpp"

namespace orchard {

struct segment_directory_peer {
    static std::uint64_t& committed(segment_directory& d, std::uint32_t w) { return d.words_[w].committed; }
    static std::uint64_t& granted(segment_directory& d, std::uint32_t w) { return d.words_[w].granted; }
    static std::uint32_t& granted_count(segment_directory& d) { return d.granted_; }
};

}  // namespace orchard
