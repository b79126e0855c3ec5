// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What `--allocator NAME` of an application chooses from: functions that run it in another allocator than a heap. A
/// program has those whose sources it is linked with (examples/published): that of the arena, which `./orchard` starts
/// where another allocator is named.

#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace orchard::examples {

/// The name of a heap of Orchard among the allocators.
inline constexpr const char* own_allocator = "orchard";

/// Returns the functions of one type, by the names of their allocators; one list for each application.
/// A local static: objects of other sources add to it before `main`, in any order.
template <class Function>
std::map<std::string, Function>& other_allocators() {
    static std::map<std::string, Function> all;
    return all;
}

/// Returns the function of a name. Errors: InvalidArgument with the known names, and how to get others.
template <class Function>
absl::StatusOr<Function> find_allocator(const std::string& name) {
    const auto& all = other_allocators<Function>();
    if (const auto found = all.find(name); found != all.end()) {
        return found->second;
    }
    const auto named = [](std::string* to, const auto& entry) { to->append(entry.first); };
    return absl::InvalidArgumentError(
        all.empty() ? absl::StrCat("--allocator: this program has no '", name, "', only ", own_allocator,
                                   "; in a checkout, `./orchard` with the same arguments builds one with the "
                                   "published allocators (docs/arena.md)")
                    : absl::StrCat("--allocator: there is no '", name, "'; choose of ", own_allocator, ", ",
                                   absl::StrJoin(all, ", ", named)));
}

}  // namespace orchard::examples
