// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The table of the paging model's policies; see paging_policy.hpp.

#include "uvm/model/paging_policy.hpp"

#include <cstddef>
#include <string>

#include "absl/strings/str_format.h"

namespace orchard::uvm_model {
namespace {

/// In the order of the enumeration: `name_of` relies on it.
constexpr paging_policy_entry policy_entries[] = {
    {paging_policy::driver, "driver", "the UVM driver's own rules"},
    {paging_policy::throttling_fetch, "throttling_fetch",
     "ThrottlingFetch, as we read it: fewer SMs while evicted VA blocks come back, and compressed transfers"},
    {paging_policy::early_adaptor, "early_adaptor",
     "Early-Adaptor, as we read it: the prefetch threshold of a VA block follows its history of faults"},
    {paging_policy::dynamic_act, "dynamic_act",
     "DynamicACT, as we read it: host memory is accessed remotely until a counter passes a growing threshold"},
};

}  // namespace

std::span<const paging_policy_entry> paging_policies() { return policy_entries; }

std::string_view name_of(paging_policy p) { return policy_entries[static_cast<std::size_t>(p)].name; }

absl::StatusOr<paging_policy> paging_policy_named(std::string_view name) {
    std::string names;
    for (const paging_policy_entry& e : policy_entries) {
        if (e.name == name) {
            return e.which;
        }
        names += names.empty() ? "" : ", ";
        names += e.name;
    }
    return absl::InvalidArgumentError(absl::StrFormat("there is no policy '%s'; there are: %s", name, names));
}

}  // namespace orchard::uvm_model
