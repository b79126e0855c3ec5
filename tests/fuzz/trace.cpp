// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The reader of recorded traces. An input is a file; it is read as it is, and again with the length and the checksum in
// its header set right, so that the steps are reached.

#include <array>
#include <bit>
#include <memory>

#include "tests/fuzz/target.hpp"
#include "tests/uvm_trace/traces.hpp"
#include "uvm/model/trace_file.hpp"

namespace orchard::fuzz {
namespace {

using uvm_model::access;
using uvm_model::trace;
using uvm_model::trace_header_bytes;

/// Returns `bytes` with the length and the checksum that their body has.
std::string sealed(std::string bytes) {
    constexpr std::size_t at_length = 40;
    constexpr std::size_t at_checksum = trace_header_bytes - 8;
    std::string number;
    uvm_model::put_u64(number, bytes.size() - trace_header_bytes);
    bytes.replace(at_length, 8, number);
    const std::string_view all = bytes;
    number.clear();
    uvm_model::put_u64(
        number, uvm_model::checksum(all.substr(0, at_checksum), uvm_model::checksum(all.substr(trace_header_bytes))));
    return bytes.replace(at_checksum, 8, number);
}

/// Reads all steps, which must be as the header and `access_source` promise.
void check(const trace& t) {
    const std::unique_ptr<uvm_model::access_source> source = t.source();
    expect(source->warps() == t.header().warps && source->bytes() == t.header().space_bytes, "another header");
    std::uint64_t steps = 0;
    std::uint64_t accesses = 0;
    std::array<access, max_lanes> buffer;
    for (std::uint32_t w = 0; w < source->warps(); ++w) {
        std::size_t count = 0;
        for (std::uint64_t i = 0; (count = source->step(w, i, buffer)) != 0; ++i, ++steps) {
            accesses += count;
            for (std::size_t k = 0; k < count; ++k) {
                const access& a = buffer[k];
                expect(a.address < source->bytes(), "an address beyond the space");
                expect(a.lane < max_lanes && (k == 0 || a.lane > buffer[k - 1].lane), "lanes that do not ascend");
                expect(a.kind <= uvm_model::access_kind::atomic, "an access of no kind");
            }
        }
    }
    expect(steps == t.header().steps && accesses == t.header().accesses, "another count than the header's");
}

/// Writes the steps again, and compares what is then read.
void check_rewritten(const trace& t) {
    const absl::StatusOr<trace> again = trace::from(*t.source());
    expect(again.ok(), absl::StrCat("steps that were read cannot be written: ", again.status().ToString()));
    expect(test::all_of(*again->source()) == test::all_of(*t.source()), "the steps changed when they were rewritten");
}

absl::StatusOr<trace> read(const std::string& bytes) {
    absl::StatusOr<trace> t = trace::parse(bytes);
    if (!t.ok()) {
        expect_clear(t.status());
        expect(absl::IsDataLoss(t.status()) || absl::IsUnimplemented(t.status()),
               absl::StrCat("an error of its own: ", t.status().ToString()));
    }
    return t;
}

void try_file(const std::string& bytes) {
    static const memory_file file;
    file.replace(bytes);
    const bool valid = read(bytes).ok();
    const absl::StatusOr<trace> loaded = trace::load(file.path());
    expect(loaded.ok() == valid, "load and parse disagree");
    if (!loaded.ok()) {
        expect_clear(loaded.status());
    }
    if (bytes.size() < trace_header_bytes) {
        return;
    }
    const absl::StatusOr<trace> t = read(sealed(bytes));
    if (t.ok()) {
        check(*t);
        constexpr std::uint32_t few_warps = 1024;  // writing takes memory for each
        if (t->header().warps <= few_warps) {
            check_rewritten(*t);
        }
    }
}

}  // namespace
}  // namespace orchard::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    orchard::fuzz::try_file(std::string(reinterpret_cast<const char*>(data), size));
    return 0;
}
