// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard quickstart`: a complete use of a heap on either device, with options, errors and statistics.
///
/// The program creates a heap. In one kernel every thread allocates a list and fills it; a second kernel sums and frees
/// the lists. Then the program prints the heap's statistics.
///
///     make_lists    thread i allocates 1 + i % 100 items      lists[i] -> 1 2 3 ...     100,000 threads
///     sum_lists     thread i takes the list of thread 99,999 - i: any thread may free a block
///     host          checks for failures, reads the sum, prints
///
/// With the default options it runs on a GPU if one is usable, else on the emulated device; `--device` chooses.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <orchard/device.cuh>
#include <orchard/heap.hpp>

#include "absl/strings/str_format.h"
#include "runtime/cli/command_line.hpp"
#include "runtime/cli/json_output.hpp"
#include "runtime/cli/options_cli.hpp"
#include "runtime/cli/program_heap.hpp"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/launch_status.hpp"

namespace orchard::examples {
namespace {

/// A list of numbers that one thread made.
struct list {
    std::uint32_t* items;  ///< in the heap; null if the heap had no memory
    std::uint32_t length;  ///< number of items
};

/// Every thread allocates a list, whose length only this thread knows, and fills it with 1, 2, 3, ...
struct make_lists {
    heap_ref heap;
    list* lists;  ///< plain device memory: one element a thread
    std::uint64_t threads;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i >= threads) {
            return;
        }
        const auto length = static_cast<std::uint32_t>(1 + i % 100);
        auto* items = static_cast<std::uint32_t*>(heap.malloc(length * sizeof(std::uint32_t)));
        if (items == nullptr) {
            return;  // heap::last_failure() on the host returns the reason
        }
        for (std::uint32_t n = 0; n < length; ++n) {
            items[n] = n + 1;
        }
        lists[i] = {items, length};
    }
};

/// Other threads sum the lists and free them.
struct sum_lists {
    heap_ref heap;
    const list* lists;
    std::uint64_t threads;
    simt::device_word<std::uint64_t>* sum;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.global_thread() >= threads) {
            return;
        }
        // Written by an earlier kernel, which has ended: an ordinary read sees it.
        const list mine = lists[threads - 1 - at.global_thread()];
        std::uint64_t total = 0;
        for (std::uint32_t n = 0; n < mine.length; ++n) {
            total += mine.items[n];
        }
        // Relaxed: the host reads the sum after the kernel has ended.
        sum->fetch_add<simt::order::relaxed>(total);
        heap.free(mine.items);
    }
};

struct arguments {
    options values;
    command_line::json_option json;
};

/// Runs the example with a heap of these options. Errors: those of `heap::create`; ResourceExhausted, with the heap's
/// report, if a request failed; those of launches, copies and the file of `--json`.
absl::Status quickstart(const arguments& a) {
    absl::StatusOr<command_line::json_output> out = command_line::json_output::open(a.json);
    if (!out.ok()) {
        return out.status();
    }
    absl::StatusOr<heap> heap = command_line::create_heap(a.values);
    if (!heap.ok()) {
        return heap.status();
    }
    const std::uint64_t threads = 100'000;
    // Zero at first, so that a thread without memory leaves an empty list: the second kernel sums nothing and frees
    // null.
    auto lists = device_array<list>::create(heap->executor(), threads);
    auto sum = device_array<simt::device_word<std::uint64_t>>::create(heap->executor(), 1);
    absl::Status status = lists.status();
    status.Update(sum.status());
    if (!status.ok()) {
        return status;
    }

    status.Update(to_status(
        simt::launch(heap->executor(), simt::grid_for(threads), make_lists{heap->ref(), lists->data(), threads})));
    status.Update(to_status(simt::launch(heap->executor(), simt::grid_for(threads),
                                         sum_lists{heap->ref(), lists->data(), threads, sum->data()})));
    // A request that failed is no error of the launch: the kernel went on with null.
    if (const std::optional<failure> first = heap->first_failure(); status.ok() && first.has_value()) {
        status.Update(absl::ResourceExhaustedError(to_text(*first)));
    }
    simt::device_word<std::uint64_t> result{0};
    status.Update(sum->download({&result, 1}));
    const absl::StatusOr<statistics> counted = heap->stats();
    status.Update(counted.status());
    if (!status.ok()) {
        return status;
    }
    const std::uint64_t items = result.load<simt::order::relaxed>();
    out->text() << absl::StrFormat("device   %s (%s)\n%d lists, sum of all items: %d\n\n", name_of(heap->device().kind),
                                   heap->device().reason, threads, items)
                << to_text(*counted);
    return out->commit(command_line::device_json(heap->device()),
                       {{"lists", threads}, {"sum", items}, {"statistics", command_line::json_of(*counted)}});
}

/// Returns the subcommand; its flags are --json and the options of the heap. They live as long as the subcommand, since
/// CLI11 keeps references to them.
command_line::subcommand quickstart_command() {
    const auto a = std::make_shared<arguments>();
    return {"quickstart", "Create a heap, allocate and fill lists in a kernel, sum and free them in another",
            "Examples",
            [a](CLI::App& app) {
                command_line::add_json(app, a->json, "Write the sum and the heap's statistics");
                add_to(app, a->values);
            },
            [a] { return command_line::exit_code(quickstart(*a)); }};
}

const command_line::registrar quickstart_registered{quickstart_command};

}  // namespace
}  // namespace orchard::examples
