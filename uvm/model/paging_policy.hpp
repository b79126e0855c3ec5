// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The policies of the paging model: the driver's own, and stand-ins for three published ones that AlignMalloc (TPDS
/// 2025) compares itself with. Each stand-in is our reading of a description, not the authors' program;
/// docs/uvm_model.md ("Stand-ins for published policies") gives the rules, the parameters and the sources.

#include <cstdint>
#include <span>
#include <string_view>

#include <absl/status/statusor.h>

namespace orchard::uvm_model {

/// Identifies a policy; `paging_policy_entry::name` is its name on the command line.
enum class paging_policy : std::uint8_t {
    driver,            ///< docs/uvm.md
    throttling_fetch,  ///< our reading of C. Li et al., ASPLOS 2019: `sm_throttle`, and compressed transfers
    early_adaptor,     ///< our reading of S. Go et al., ISPASS 2023: `fault_history`
    dynamic_act,       ///< our reading of D. Ganguly et al., IPDPS 2020: `access_counters`
};

/// A policy with its name and one line of help.
struct paging_policy_entry {
    paging_policy which;
    std::string_view name;
    std::string_view help;
};
/// Returns all policies, in the order of the enumeration.
[[nodiscard]] std::span<const paging_policy_entry> paging_policies();
/// Returns the name of a policy.
[[nodiscard]] std::string_view name_of(paging_policy p);
/// Returns the policy called `name`. Errors: InvalidArgument with the known names.
[[nodiscard]] absl::StatusOr<paging_policy> paging_policy_named(std::string_view name);

}  // namespace orchard::uvm_model
