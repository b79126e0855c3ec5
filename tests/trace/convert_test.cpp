// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Traces in the formats of other programs, read back by readers that were written apart.

#include "runtime/trace/trace_convert.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "absl/strings/str_split.h"
#include "runtime/trace/varint.hpp"
#include "tests/trace/trace_file.hpp"

namespace orchard::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint64_t base = 0x7f0000000000;
trace_info short_info() { return {event_mode::complete, true, base, 1 << 30, 1 << 28, 1'000'000'000, "{}"}; }

/// A commit, a grant, three blocks of which one is tagged and one freed, a shortage.
std::vector<event> short_events() {
    return {{1'000'010'000, 0, 64 << 20, 7, 0, event_kind::commit},
            {1'000'020'000, 2 << 20, 2 << 20, 0, 3, event_kind::grant},
            {1'000'030'000, 2 << 20, 64, 5, 0, event_kind::block_allocated},
            {1'000'030'100, (2 << 20) + 64, 60, 6, 0, event_kind::block_allocated},
            {1'000'030'200, (2 << 20) + 64, 0, 6, 9, event_kind::block_tagged},
            {1'000'040'000, 2 << 20, 0, 7, 0, event_kind::block_freed},
            {1'000'050'000, 4 << 20, 4096, 8, 0, event_kind::block_allocated},
            {4'661'000'060'000, 0, 1 << 20, 8, 2, event_kind::shortage}};
}

std::string converted(trace_target to) {
    const trace_info info = short_info();
    const std::map<std::uint32_t, std::string> names{{9, "tree.cu:12"}};
    std::ostringstream out;
    const auto converter = make_converter(to, info, names, out);
    converter->take(short_events());
    converter->finish();
    return out.str();
}

TEST(trace_convert, writes_the_columns_of_rmm) {
    EXPECT_EQ(converted(trace_target::rmm),
              "Thread,Time,Action,Pointer,Size,Stream\n"
              "5,00:00:00.000030,allocate,0x7f0000200000,64,0x0\n"
              "6,00:00:00.000030,allocate,0x7f0000200040,60,0x0\n"
              "7,00:00:00.000040,free,0x7f0000200000,64,0x0\n"
              "8,00:00:00.000050,allocate,0x7f0000400000,4096,0x0\n"
              "8,01:17:40.000060,allocate failure,0x0,1048576,0x0\n");
}

// --- Perfetto: a decoder of Protocol Buffers, for the fields that are looked at ---

/// The fields of a message: number, and its value or content.
std::vector<std::tuple<std::uint64_t, std::uint64_t, std::string>> fields_of(std::string_view message) {
    std::vector<std::tuple<std::uint64_t, std::uint64_t, std::string>> fields;
    detail::varint_reader in{message};
    while (!in.rest.empty()) {
        const std::uint64_t key = in.varint();
        EXPECT_TRUE(key % 8 == 0 || key % 8 == 2) << key;
        const bool is_text = key % 8 == 2;
        const std::uint64_t value = is_text ? 0 : in.varint();
        fields.emplace_back(key / 8, value, is_text ? std::string(in.text()) : "");
        EXPECT_FALSE(in.failed);
        if (in.failed) {
            break;
        }
    }
    return fields;
}
std::uint64_t number(std::string_view message, std::uint64_t field) {
    for (const auto& [f, value, text] : fields_of(message)) {
        if (f == field) {
            return value;
        }
    }
    return ~std::uint64_t{0};
}
std::string text(std::string_view message, std::uint64_t field) {
    for (const auto& [f, value, content] : fields_of(message)) {
        if (f == field) {
            return content;
        }
    }
    return "";
}

TEST(trace_convert, writes_track_events_for_perfetto) {
    std::map<std::uint64_t, std::string> tracks;
    std::vector<std::string> lines;
    for (const auto& [field, value, packet] : fields_of(converted(trace_target::perfetto))) {
        ASSERT_EQ(field, 1u) << "Trace.packet";
        if (const std::string track = text(packet, 60); !track.empty()) {
            tracks[number(track, 1)] = text(track, 2);
            continue;
        }
        const std::string what = text(packet, 11);
        ASSERT_FALSE(what.empty()) << "TracePacket.track_event";
        EXPECT_EQ(number(packet, 10), 1u) << "trusted_packet_sequence_id";
        const std::uint64_t type = number(what, 9);
        std::ostringstream line;
        line << number(packet, 8) << " " << tracks[number(what, 11)] << " " << type << " " << text(what, 23);
        if (type == 4) {
            line << number(what, 30);
        }
        lines.push_back(line.str());
    }
    EXPECT_THAT(lines,
                testing::IsSupersetOf(
                    {"1000003000 growth 1 commit", "1000010000 growth 2 ", "1000010000 committed (B) 4 67108864",
                     "1000020000 service 3 grant", "1000020000 granted (B) 4 2097152", "1000030000 blocks (B) 4 124",
                     "1000040000 blocks (B) 4 60", "1000050000 blocks 4 2", "4661000060000 kernels 3 shortage"}))
        << testing::PrintToString(lines);
}

// --- PyTorch: Python's own unpickler reads it, and the structure is that which memory_viz reads ---

TEST(trace_convert, writes_a_pickle_for_pytorch) {
    const trace_file file;
    std::ofstream(file.path(), std::ios::binary) << converted(trace_target::pytorch);
    const trace_file script;
    std::ofstream(script.path()) << R"(
import pickle, sys
s = pickle.load(open(sys.argv[1], "rb"))
assert sorted(s) == ["device_traces", "segments"], s.keys()
entries = s["device_traces"][0]
print([(e["action"], e["addr"], e["size"], e["time_us"]) for e in entries])
for e in entries:
    assert e["stream"] == 0 and isinstance(e["frames"], list)
(segment,) = s["segments"]
assert segment["device"] == 0 and segment["segment_type"] == "large"
at = segment["address"]
for b in segment["blocks"]:
    assert b["address"] == at and b["state"] in ("active_allocated", "inactive")
    at += b["size"]
assert at == segment["address"] + segment["total_size"]
print([(b["address"], b["requested_size"], [f["filename"] for f in b["frames"]]) for b in segment["blocks"] if b["state"] != "inactive"])
)";
    const trace_file out;
    ASSERT_EQ(std::system(("python3 " + script.path() + " " + file.path() + " > " + out.path()).c_str()), 0);
    EXPECT_EQ(out.content(),
              "[('segment_alloc', 139637976727552, 1073741824, 1000000), ('alloc', 139637978824704, 64, 1000030), "
              "('alloc', 139637978824768, 60, 1000030), ('free_requested', 139637978824704, 64, 1000040), "
              "('free_completed', 139637978824704, 64, 1000040), ('alloc', 139637980921856, 4096, 1000050)]\n"
              "[(139637978824768, 60, ['tree.cu:12']), (139637980921856, 4096, [])]\n");
}

}  // namespace
}  // namespace orchard::test
