// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>

#include "tests/deadlock/calls.hpp"

namespace orchard::test {
namespace {

constexpr int max_heaps = 8;

absl::Status make_heap(bed* on) {
    options values;
    values.device = device_option::cuda;
    values.capacity = 256 * mib_bytes;
    auto made = heap::create(values);
    if (made.ok()) {
        on->other_heaps.push_back(*std::move(made));
    }
    return made.status();
}

absl::Status make_heaps(bed* on) {
    absl::Status status;
    for (int i = 0; i < max_heaps && status.ok(); ++i) {
        status = make_heap(on);
    }
    return status;
}

/// Reserves 1 GiB more at each call, up to 9 GiB.
std::function<absl::Status()> reserving(bed* on) {
    return [on, gib = std::uint64_t{0}]() mutable {
        gib = std::min<std::uint64_t>(gib + 1, 9);
        return on->grown->reserve(gib << 30);
    };
}

}  // namespace

call_list heap_calls(bed* on) {
    call_list calls;
    calls.push_back({"creating another heap", max_heaps, [on] { return make_heap(on); }});
    calls.push_back({"destroying another heap", max_heaps,
                     [on] {
                         on->other_heaps.pop_back();
                         return absl::OkStatus();
                     },
                     [on] { return make_heaps(on); }});
    calls.push_back({"heap::trim", unlimited, [on] { return on->grown->trim(); }});
    calls.push_back({"heap::stats", unlimited, [on] { return on->grown->stats().status(); }});
    calls.push_back({"heap::reserve", unlimited, reserving(on)});
    calls.push_back({"exit of the process", 1, []() -> absl::Status { std::exit(0); }});
    calls.back().ends_process = true;
    return calls;
}

}  // namespace orchard::test
