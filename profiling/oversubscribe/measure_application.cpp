// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// One measured row of an application.

#include <string>

#include "profiling/oversubscribe/measure.hpp"

namespace orchard::oversubscribe {

apps::job job_of(const plan& p, const row_subject& of) {
    apps::job j;
    j.threads = p.threads;
    j.bytes = of.bytes;
    j.how = of.how;
    j.passes = p.passes;
    j.limit_s = p.kernel_seconds;
    j.moves = of.by == way::move;
    return j;
}

absl::StatusOr<row> measure_application(heap& in, const plan& p, const row_subject& of) {
    const auto found = apps::run_app(in, *of.application, job_of(p, of));
    if (!found.ok()) {
        return found.status();
    }
    measurement m;
    m.bytes = found->array_bytes;
    for (const double us : found->pass_us) {
        m.pass_ms.push_back(us * 1e-3);
    }
    m.moves_ms = found->moves_us * 1e-3;
    m.before = found->before;
    m.after = found->after;
    m.allocate_ms = found->allocate_us * 1e-3;
    m.fill_ms = found->fill_us * 1e-3;
    m.nulls = found->nulls;
    m.wrong = found->wrong;
    row r = row_of(p, of, m);
    r["part"] = found->part;
    r["checked"] = found->checked;
    if (!found->error.ok()) {
        r["error"] = std::string(found->error.message());
    }
    return r;
}

}  // namespace orchard::oversubscribe
