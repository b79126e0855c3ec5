// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Traces of heaps: any bytes are read or refused, and what is read can be converted and written again.

#include <sstream>
#include <vector>

#include "runtime/trace/trace_convert.hpp"
#include "runtime/trace/trace_reader.hpp"
#include "runtime/trace/trace_writer.hpp"
#include "tests/fuzz/target.hpp"

namespace orchard::fuzz {
namespace {

using namespace detail::trace;

/// Returns the bytes with right checksums, so that what lies behind these is tried, too.
std::string sealed(std::string bytes) {
    for (std::size_t at = prefix_bytes; at + section_bytes <= bytes.size();) {
        const std::size_t length = word_at(bytes, at + 4);
        if (length > bytes.size() - at - section_bytes) {
            break;
        }
        const std::string_view text = bytes;
        const std::uint32_t sum = crc32(text.substr(at, 12), text.substr(at + section_bytes, length));
        for (std::size_t i = 0; i < 4; ++i) {
            bytes[at + 12 + i] = static_cast<char>(sum >> 8 * i);
        }
        at += section_bytes + length;
    }
    return bytes;
}

absl::StatusOr<whole_trace> read(const std::string& bytes) {
    std::istringstream in(bytes);
    whole_trace whole;
    auto summary = read_trace(in, "input", [&](const std::vector<event>& events) {
        whole.events.insert(whole.events.end(), events.begin(), events.end());
        return absl::OkStatus();
    });
    if (!summary.ok()) {
        expect_clear(summary.status());
        expect(absl::IsDataLoss(summary.status()), "an error of another kind: " + summary.status().ToString());
        return summary.status();
    }
    whole.summary = *summary;
    return whole;
}

void check_rewritten(const whole_trace& t) {
    const memory_file file;
    auto writer = trace_writer::open(file.path(), t.summary.info, std::uint64_t{1} << 30);
    expect(writer.ok(), "the trace cannot be written: " + writer.status().ToString());
    (*writer)->take(t.events);
    const trace_counts& counts = t.summary.counts;
    expect((*writer)->finish(counts.lost_notes, counts.waits.value_or(trace_waits{}), counts.names).ok(),
           "the end cannot be written");
    const auto again = load_trace(file.path());
    expect(again.ok(), "what was written is not read: " + again.status().ToString());
    expect(again->events == t.events && again->summary.info == t.summary.info, "what was written is read otherwise");
    expect(!counts.waits.has_value() || again->summary.counts.waits == counts.waits, "the waits are read otherwise");
}

void check_converted(const whole_trace& t) {
    for (const trace_target to : {trace_target::rmm, trace_target::perfetto, trace_target::pytorch}) {
        std::ostringstream out;
        const auto converter = make_converter(to, t.summary.info, t.summary.counts.names, out);
        converter->take(t.events);
        converter->finish();
        expect(!out.str().empty(), "nothing was written");
    }
}

void try_bytes(const std::string& bytes) {
    (void)read(bytes);
    const auto t = read(sealed(bytes));
    if (t.ok()) {
        check_rewritten(*t);
        check_converted(*t);
    }
}

}  // namespace
}  // namespace orchard::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    orchard::fuzz::try_bytes(std::string(reinterpret_cast<const char*>(data), size));
    return 0;
}
