// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard bench idle`: the host time that a heap uses while no request is made. The service thread polls host memory;
/// it must not keep a core busy in a program that does not allocate.
///
///     seconds_after_last_request   start of the interval of one second
///     percent_of_a_core            processor time of all threads of the process in that second, by the elapsed time
///
/// The first second shows that the service spins for a while (option `service_spin`) and then sleeps for longer.

#include <time.h>

#include "absl/time/clock.h"
#include "device/heap_ref.cuh"
#include "profiling/bench/bench.hpp"
#include "runtime/heap/heap.hpp"

namespace orchard::bench {
namespace {

using nlohmann::ordered_json;

/// Makes one request that goes to the host: 2 segments are more than a page, and the heap is new.
struct request_once {
    heap_ref heap;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.thread == 0) {
            heap.free(heap.malloc(2 * segment_bytes));
        }
    }
};

/// Returns the processor time of the whole process so far, in seconds: service, growth, and the driver's threads. The
/// main thread sleeps meanwhile and adds nothing.
double process_seconds() {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

absl::StatusOr<ordered_json> run_idle(const settings& s) {
    options values = s.heap;
    values.device = s.device == simt::device_kind::cuda ? device_option::cuda : device_option::emulated;
    auto h = heap::create(values);
    if (!h.ok()) {
        return h.status();
    }
    const simt::launch_result result = simt::launch(h->executor(), simt::grid{1, 32}, request_once{h->ref()});
    if (!result.ok) {
        return to_status(result);
    }
    ordered_json rows = ordered_json::array();
    for (const double after_s : {0.0, 1.0, 2.0}) {
        // The first row covers the second directly after the request, in which the service still spins for a while.
        const double before = process_seconds();
        const absl::Time began = absl::Now();
        absl::SleepFor(absl::Seconds(1));
        // By the elapsed time, since a sleep may last longer than asked for.
        const double share = (process_seconds() - before) / absl::ToDoubleSeconds(absl::Now() - began);
        rows.push_back({{"seconds_after_last_request", after_s}, {"percent_of_a_core", 100 * share}});
    }
    return rows;
}

const registrar idle_registered{{"idle", "processor time of the threads of a heap without requests", run_idle}};

}  // namespace
}  // namespace orchard::bench
