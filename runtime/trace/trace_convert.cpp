// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "runtime/trace/trace_convert.hpp"

#include "absl/strings/str_format.h"
#include "runtime/trace/followed_blocks.hpp"
#include "runtime/trace/perfetto_writer.hpp"
#include "runtime/trace/pytorch_writer.hpp"

namespace orchard {
namespace {

/// RMM's columns: "Thread,Time,Action,Pointer,Size,Stream". A free has the size of its block. Frees of unknown blocks
/// are left out. The time is that since the trace began, as hours:minutes:seconds.microseconds; the stream is 0.
class rmm_writer final : public trace_converter {
public:
    rmm_writer(const trace_info& info, std::ostream& out) : info_{info}, out_{out} {
        out_ << "Thread,Time,Action,Pointer,Size,Stream\n";
    }

    void take(const std::vector<event>& events) override {
        for (const event& e : events) {
            const followed_blocks::change c = blocks_.take(e);
            if (c.what == followed_blocks::effect::doubled) {
                write(e, "free", c.before.bytes);
            }
            if (c.what == followed_blocks::effect::allocated || c.what == followed_blocks::effect::doubled) {
                write(e, "allocate", c.after.bytes);
            } else if (c.what == followed_blocks::effect::freed) {
                write(e, "free", c.before.bytes);
            } else if (e.kind == event_kind::shortage) {
                write(e, "allocate failure", e.bytes);
            }
        }
    }
    void finish() override {}

private:
    void write(const event& e, std::string_view action, std::uint64_t bytes) {
        const std::uint64_t us = e.time_ns > info_.start_ns ? (e.time_ns - info_.start_ns) / 1000 : 0;
        const std::uint64_t address = e.kind == event_kind::shortage ? 0 : info_.base + e.at;
        out_ << absl::StrFormat("%d,%02d:%02d:%02d.%06d,%s,0x%x,%d,0x0\n", e.thread, us / 3'600'000'000,
                                us / 60'000'000 % 60, us / 1'000'000 % 60, us % 1'000'000, action, address, bytes);
    }

    const trace_info& info_;
    std::ostream& out_;
    followed_blocks blocks_;
};

}  // namespace

std::unique_ptr<trace_converter> make_converter(trace_target to, const trace_info& info,
                                                const std::map<std::uint32_t, std::string>& names, std::ostream& out) {
    switch (to) {
        case trace_target::rmm: return std::make_unique<rmm_writer>(info, out);
        case trace_target::perfetto: return make_perfetto_writer(info, names, out);
        case trace_target::pytorch: return make_pytorch_writer(info, names, out);
    }
    return nullptr;
}

}  // namespace orchard
