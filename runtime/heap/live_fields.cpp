// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The one list of the fields of a live page, `visit`, which makes the table and the values; see live_fields.hpp.

#include "runtime/heap/live_fields.hpp"

#include "absl/strings/str_cat.h"
#include "runtime/heap/failure.hpp"

namespace orchard {
namespace {

using live::field_description;
using live::field_kind;

field_kind kind_of(statistic_kind kind) {
    return kind == statistic_kind::counter ? field_kind::counter : field_kind::gauge;
}

/// Takes a field of several cells, each as `cell(i)` says: a number or a text.
///
/// Both sinks are called with the same fields in the same order.
struct table_sink {
    std::vector<field_description>& to;

    template <class Cell>
    void operator()(field_description field, Cell) {
        to.push_back(std::move(field));
    }
};

struct words_sink {
    std::vector<std::uint64_t>& to;

    template <class Cell>
    void operator()(const field_description& field, Cell cell) {
        for (std::uint32_t i = 0; i < field.count; ++i) {
            to.resize(to.size() + field.cell_words);
            const std::span<std::uint64_t> words = std::span(to).last(field.cell_words);
            if constexpr (std::is_convertible_v<decltype(cell(i)), std::uint64_t>) {
                words.front() = cell(i);
            } else {
                live::put_text(words, cell(i));
            }
        }
    }
};

/// The fields in the order of the page. A new one goes to the end of its part; a reader finds it by its name.
template <class Sink>
void visit(const live_state& s, Sink sink) {
    const auto text = [&](const char* name, const char* help, const std::string& value) {
        sink({name, "", "", help, field_kind::text, 1, live::long_text_words}, [&](std::uint32_t) { return value; });
    };
    text("program", "the program that has the heap", s.program);
    text("device", "cuda or emulated", s.device);
    text("gpu", "number of the GPU in its process; empty on the emulated device", s.gpu);
    text("gpu_name", "name of the GPU", s.gpu_name);
    text("gpu_uuid", "UUID of the GPU", s.gpu_uuid);
    text("backing", "where memory comes from", s.backing);
    sink({"class", "", "", "names of the page classes: the bytes of a page", field_kind::text, class_count,
          live::label_words},
         [&](std::uint32_t i) { return absl::StrCat(class_bytes(i)); });
    sink({"reason", "", "", "names of the reasons of failures", field_kind::text, failure_reasons, live::label_words},
         [&](std::uint32_t i) { return name_of(static_cast<failure_reason>(i)); });

    const auto gauge = [&](const char* name, const char* unit, const char* help, std::uint64_t value) {
        sink({name, unit, "", help, field_kind::gauge}, [=](std::uint32_t) { return value; });
    };
    gauge("started_ns", "ns", "when the heap was made, by CLOCK_MONOTONIC", s.started_ns);
    gauge("device_read_ns", "ns", "when the device's counters were read, by CLOCK_MONOTONIC; 0: never",
          s.device_read_ns);
    gauge("device_read_cost_ns", "ns", "how long that took", s.device_read_cost_ns);
    gauge("device_budget_bytes", "bytes", "most memory that the heap may commit on the device", s.device_budget_bytes);
    gauge("host_budget_bytes", "bytes", "most memory that the heap may commit on the host", s.host_budget_bytes);
    gauge("largest_free_bytes", "bytes", "longest piece of free committed memory, when it was last looked for",
          s.largest_free_bytes);
    sink({"failed_commits", "count", "", "commits that failed so far", field_kind::counter},
         [&](std::uint32_t) { return s.failed_commits; });

    for (const statistic_info& info : statistic_table()) {
        sink({std::string(info.name), info.unit, "", info.help, kind_of(info.kind())},
             [&](std::uint32_t) { return s.counts.*info.field; });
    }
    for (const class_statistic_info& info : class_statistic_table()) {
        if (info.field == &class_statistics::page_bytes) {
            continue;  // the name of the class
        }
        sink({absl::StrCat("class_", absl::string_view(info.name.data(), info.name.size())), info.unit, "class",
              info.help, kind_of(info.kind()), class_count},
             [&](std::uint32_t i) { return s.counts.classes[i].*info.field; });
    }

    const auto histogram = [&](const char* name, const char* unit, const char* help, const power_histogram* from) {
        sink({name, unit, "", help, field_kind::histogram, live::histogram_cells}, [=](std::uint32_t i) {
            return from == nullptr ? 0 : i < power_histogram::buckets ? from->count(i) : from->sum();
        });
    };
    histogram("queue_depth", "count", "requests that the service found in a look that found any", s.queue_depth);
    histogram("answer_ns", "ns", "from reading the requests of a look to sending their answers, of one look in 16",
              s.answer_ns);
    histogram("commit_ns", "ns", "a commit of memory, failed ones included", s.commit_ns);

    const auto failures = [&](const char* name, const char* unit, const char* help, field_kind kind, auto member) {
        sink({name, unit, "reason", help, kind, failure_reasons},
             [&s, member](std::uint32_t i) { return s.failures[i] ? std::uint64_t{member(*s.failures[i])} : 0; });
    };
    using failed = const device::recorded_failure&;
    failures("failures", "count", "requests that failed so far, as far as they are recorded", field_kind::counter,
             [](failed f) { return f.number; });
    failures("failure_bytes", "bytes", "of the newest one: what was asked for", field_kind::gauge,
             [](failed f) { return f.bytes; });
    failures("failure_block", "", "of the newest one: index of the block that asked", field_kind::gauge,
             [](failed f) { return f.at.block; });
    failures("failure_thread", "", "of the newest one: index of the thread in its block", field_kind::gauge,
             [](failed f) { return f.at.thread; });
    failures("failure_time_ns", "ns", "of the newest one: when it failed, by the device's clock", field_kind::gauge,
             [](failed f) { return f.time_ns; });
}

}  // namespace

std::vector<field_description> live_table() {
    std::vector<field_description> table;
    visit({}, table_sink{table});
    return table;
}

std::vector<std::uint64_t> live_words(const live_state& of) {
    std::vector<std::uint64_t> words;
    words.reserve(1024);
    visit(of, words_sink{words});
    return words;
}

}  // namespace orchard
