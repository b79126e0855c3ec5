// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The names of tags (uvm/geometry/site.hpp), for reports.

#include <cstdint>
#include <string>

#include "uvm/geometry/site.hpp"

namespace orchard {

/// Gives a tag a name, for reports of this process; a later name replaces an earlier one. Any thread may call it.
void name_tag(std::uint32_t tag, std::string name);

/// Returns the name of a tag: that of `name_tag`; else the places in the files that `ORCHARD_NAME_SITES` has named,
/// such as "tree.cu:120", several with " or " between them; else "tag 5"; "no tag" for 0. Cost: for each file, the
/// hashes of its lines up to 16,384.
std::string name_of_tag(std::uint32_t tag);

namespace detail {
/// Names a file when the program starts.
struct named_file {
    explicit named_file(const char* file);
};
}  // namespace detail

}  // namespace orchard

#define ORCHARD_NAME_SITES [[maybe_unused]] static const ::orchard::detail::named_file orchard_named_file(__FILE__)
