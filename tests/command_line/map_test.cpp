// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The file of a heap's map, what its reader accepts, and the command that draws it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_split.h"
#include "examples/map/mixed_sizes.hpp"
#include "runtime/cli/command_line.hpp"
#include "runtime/cli/map/map_page.hpp"
#include "runtime/cli/map/map_picture.hpp"
#include "runtime/cli/map/read_map.hpp"
#include "tests/options/clean_environment.hpp"

namespace orchard::command_line {
namespace {

using nlohmann::json;
using testing::HasSubstr;

/// A map of the example's heap; made once.
const heap_map& example() {
    static const heap_map map = [] {
        const testing_support::clean_environment environment;
        options values;
        values.device = device_option::emulated;
        absl::StatusOr<heap_map> made = examples::map_of_mixed_sizes(values);
        EXPECT_TRUE(made.ok()) << made.status();
        return made.ok() ? *std::move(made) : heap_map{};
    }();
    return map;
}

/// A small map of known contents: segments 0 and 1 are slabs, 2 and 3 a chunk whose tail of 5 leaves is in 4; 5 is
/// free.
json small() {
    return json::parse(R"({"format": "orchard heap map", "version": 1, "program": "0.1.0", "device": "emulated",
        "backing": "elastic", "policy": "default", "layout": "automatic", "pid": 7, "segments": 100,
        "segment_bytes": 2097152, "leaf_bytes": 65536, "capacity_bytes": 12582912, "exact": true,
        "statistics": {"version": 2, "segments_committed": 6, "segments_granted": 5, "segments_free": 1,
                       "portion_blocks": 1, "portions_granted": 1, "slabs_in_use": 2, "pages_in_use": 250,
                       "live_chunks": 1, "host_bytes": 2097152, "classes": [{"page_bytes": 16, "slabs": 2}]},
        "uses": [["slab", 2], ["chunk", 2], ["portions", 1], ["free", 1], ["uncommitted", 94]],
        "slabs": [[0, 1, 4, 200], [1, 1, 4, 50]],
        "chunks": [[64, 2, 5, 128, 32, 7, "blocks", 2000000]],
        "portions": [[128, 5, "tail"]],
        "extents": [[0, 4, "device"], [4, 2, "host"]],
        "tiers": [[0, 5, "device"], [5, 1, "host"]]})");
}

TEST(map_file, of_a_heap_is_read_back_as_it_is) {
    EXPECT_TRUE(example().is_exact);
    const std::string text = to_json(example());
    const absl::StatusOr<heap_map> read = parse_map(text);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(*read == example() || to_json(*read) == text);
    EXPECT_EQ(to_json(*read), text);
    // The example has something of everything.
    const map_totals totals = totals_of(*read);
    for (const segment_use use : {segment_use::slab, segment_use::chunk, segment_use::portions}) {
        EXPECT_GT(totals.segments[static_cast<std::size_t>(use)], 0u) << name_of(use);
    }
    EXPECT_GT(totals.on_host, 0u);
}

TEST(map_file, may_have_members_of_later_versions_and_lack_statistics) {
    json text = small();
    text["more"] = {1, 2};
    text["options"] = {{"backing", "elastic"}};
    text["statistics"]["of_a_later_version"] = 5;
    const absl::StatusOr<heap_map> read = parse_map(text.dump());
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->slabs[1].pages_in_use, 50u);
    ASSERT_EQ(read->options.size(), 1u);
    EXPECT_EQ(read->options[0].second, "elastic");
    EXPECT_EQ(read->chunks[0].tail, 128u);
    EXPECT_EQ(read->totals.segments_granted, 5u);
    EXPECT_EQ(read->totals.classes[0].slabs, 2u);
}

TEST(map_file, that_is_wrong_has_one_clear_error) {
    const auto error_of = [](const std::string& text) {
        const absl::StatusOr<heap_map> read = parse_map(text);
        EXPECT_TRUE(absl::IsDataLoss(read.status())) << read.status();
        return std::string(read.status().message());
    };
    EXPECT_THAT(error_of(""), HasSubstr("cut off, or is no map"));
    EXPECT_THAT(error_of("[]"), HasSubstr("no map of a heap"));
    EXPECT_THAT(error_of("{\"format\": \"other\"}"), HasSubstr("no map of a heap"));
    const std::string whole = small().dump();
    for (std::size_t n = 0; n < whole.size(); n += 7) {
        EXPECT_THAT(error_of(whole.substr(0, n)), HasSubstr("cut off"));
    }
    json later = small();
    later["version"] = 2;
    const absl::Status newer = parse_map(later.dump()).status();
    EXPECT_TRUE(absl::IsUnimplemented(newer));
    EXPECT_THAT(std::string(newer.message()), HasSubstr("version 2, and this program reads version 1"));

    struct change {
        const char* pointer;
        json value;
        const char* error;
    };
    const change changes[] = {
        {"/segments", 99, "uses, entry 4: the number of segments is no number from 1 to 93"},
        {"/segments", 101, "uses have 100 segments, the heap has 101"},
        {"/segments", -1, "segments is missing, or no number from 0 to 16777216"},
        {"/segments", 1.5, "segments is missing"},
        {"/leaf_bytes", 4096, "segment_bytes and leaf_bytes are not 2097152 and 65536"},
        {"/device", "a\nb", "device is missing, or no text of printable ASCII characters"},
        {"/exact", 1, "exact is missing, or neither true nor false"},
        {"/options", 3, "options are no object"},
        {"/options", {{"range", 3}}, "options have an entry that is no text"},
        {"/statistics", 3, "statistics are missing, or no object"},
        {"/statistics/slabs_in_use", "x", "the statistic slabs_in_use is no number"},
        {"/statistics/slabs_in_use", 3, "but slabs_in_use: the segments say 2, the statistics 3"},
        {"/statistics/host_bytes", 0, "but host_bytes: the segments say 2097152, the statistics 0"},
        {"/statistics/classes", 3, "classes of the statistics are no list"},
        {"/statistics/classes/0", {{"slabs", 3}}, "an entry without page_bytes"},
        {"/uses/0/0", "slabs", "uses, entry 0: there is no use or tier 'slabs'"},
        {"/uses/0", {"slab"}, "uses, entry 0: it has not 2 members"},
        {"/uses/3/0", "slab", "slabs have 2 segments, and 3 have that use"},
        {"/slabs", {{"a", 1}}, "slabs are missing, or no list"},
        {"/slabs/1/0", 0, "slabs, entry 1: segments 0 to 0 are not behind those before"},
        {"/slabs/1/0", 2, "slabs, entry 1: segment 2 has the use 'chunk'"},
        {"/slabs/1/1", 100, "slabs, entry 1: segments 1 to 100 are not behind those before, or not in the heap"},
        {"/slabs/1/2", 56, "slabs, entry 1: the class is no number from 0 to 55"},
        {"/slabs/1/3", 26215, "slabs, entry 1: the number of pages in use is no number from 0 to 26214"},
        {"/chunks/0/0", 65, "chunks, entry 0: its segments are not whole"},
        {"/chunks/0/1", 3, "chunks, entry 0: segment 4 has the use 'portions'"},
        {"/chunks/0/1", 1, "chunks have 1 segments, and 2 have that use"},
        {"/chunks/0/1", 0, "chunks, entry 0: the number of bytes asked for is no number from 0 to 327680"},
        {"/chunks/0/2", 0, "chunks, entry 0: it has no leaves, but a place for them"},
        {"/chunks/0/2", 4, "chunks, entry 0: its tail of 4 leaves at leaf 128 is no portion"},
        {"/chunks/0/3", 3196, "chunks, entry 0: the first leaf of the tail is no number from 0 to 3195"},
        {"/chunks/0/4", 33, "chunks, entry 0: the number of lanes is no number from 1 to 32"},
        {"/chunks/0/5", 33, "chunks, entry 0: the number of live lanes is no number from 0 to 32"},
        {"/chunks/0/6", "tiles", "chunks, entry 0: it holds neither"},
        {"/chunks/0/7", 5000000, "chunks, entry 0: the number of bytes asked for is no number from 0 to 4521984"},
        {"/portions/0/0", 160, "portions, entry 0: segment 5 has the use 'free'"},
        {"/portions/0/0", 156, "portions, entry 0: leaves 156 to 160 are not in one segment"},
        {"/portions/0/1", 32, "portions, entry 0: the number of leaves is no number from 1 to 31"},
        {"/portions/0/2", "slab", "portions, entry 0: there is no use or tier 'slab'"},
        {"/extents/1/0", 3, "extents, entry 1: segments 3 to 4 are not behind those before"},
        {"/tiers/1/0", 6, "tiers, entry 1: segment 6 has no memory"},
        {"/tiers/1/2", "disk", "tiers, entry 1: there is no use or tier 'disk'"},
        {"/tiers/0/1", 4, "tiers have 95 segments, and 94 have that use"},
    };
    for (const change& c : changes) {
        json text = small();
        text[json::json_pointer(c.pointer)] = c.value;
        EXPECT_THAT(error_of(text.dump()), HasSubstr(c.error)) << c.pointer;
    }
    for (const char* const member :
         {"program", "device", "backing", "policy", "layout", "pid", "segments", "capacity_bytes", "exact",
          "statistics", "uses", "slabs", "chunks", "portions", "extents", "tiers"}) {
        json text = small();
        text.erase(member);
        EXPECT_THAT(error_of(text.dump()), HasSubstr(member));
    }
}

TEST(map_page, has_all_in_one_file) {
    heap_map map = example();
    map.program = "</script><script>alert(1)</script>";
    const std::string page = map_page(map);
    EXPECT_EQ(page.rfind("<!DOCTYPE html>", 0), 0u);
    EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos) << "a text of the map ends the script";
    for (const char* const reference : {"http:", "https:", " src=", "@import", "url("}) {
        EXPECT_EQ(page.find(reference), std::string::npos) << reference;
    }
    const auto begin = page.find("id=\"map\">") + 9;
    const std::string data = page.substr(begin, page.find("</script>", begin) - begin);
    EXPECT_EQ(json::parse(data), json::parse(to_json(map)));
}

/// Returns the rectangles of an SVG picture.
std::size_t rectangles(const std::string& svg) {
    std::size_t count = 0;
    for (std::size_t at = svg.find("<rect "); at != std::string::npos; at = svg.find("<rect ", at + 1)) {
        ++count;
    }
    return count;
}

TEST(map_svg, has_a_rectangle_for_each_segment_with_memory) {
    const absl::StatusOr<heap_map> map = parse_map(small().dump());
    ASSERT_TRUE(map.ok()) << map.status();
    const std::string svg = map_svg(*map);
    // The background; two slabs of two parts; two segments of a chunk of two; portions: the segment, a tail, the strip;
    // a free one with its strip for the host; keys: a class, chunk, portions, free, tails, host.
    EXPECT_EQ(rectangles(svg), 1u + 4 + 4 + 3 + 2 + 6);
    EXPECT_THAT(svg, HasSubstr("Heap of 200 MiB: emulated, elastic; one cell is a segment of 2 MiB"));
    EXPECT_THAT(svg, HasSubstr("12 MiB"));
    EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

/// A map of many segments of changing use.
heap_map wide(std::uint32_t segments) {
    heap_map map;
    map.segments = segments;
    for (std::uint32_t i = 0; i + 1 < segments; i += 2) {
        map.uses.push_back({segment_use::slab, 1});
        map.uses.push_back({segment_use::free, 1});
        map.slabs.push_back({i, 1, i % class_count, i % class_pages(i % class_count)});
    }
    map.tiers.push_back({0, segments, map_tier::device});
    return map;
}

TEST(map_pictures, of_half_a_million_segments_have_a_bounded_size) {
    const heap_map map = wide(524'288);
    EXPECT_LT(map_svg(map).size(), 1u << 20);
    EXPECT_LT(map_png(map).size(), 1u << 20);
    EXPECT_LT(map_page(map).size(), 20u << 20);
    const absl::StatusOr<heap_map> read = parse_map(to_json(map));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->slabs, map.slabs);
}

TEST(map_png, is_a_picture_of_the_size_in_its_header) {
    const std::string png = map_png(example());
    ASSERT_GT(png.size(), 100u);
    EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
    const auto number = [&](std::size_t at) {
        std::uint32_t value = 0;
        for (std::size_t i = 0; i < 4; ++i) {
            value = value << 8 | static_cast<unsigned char>(png[at + i]);
        }
        return value;
    };
    std::string packed;
    for (std::size_t at = 8; at < png.size(); at += 12 + number(at)) {
        const std::string body = png.substr(at + 4, 4 + number(at));
        EXPECT_EQ(number(at + 8 + number(at)),
                  ::crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size())));
        packed += body.starts_with("IDAT") ? body.substr(4) : "";
    }
    const std::uint32_t width = number(16);
    const std::uint32_t height = number(20);
    std::string rows((3 * std::size_t{width} + 1) * height, '\0');
    uLongf size = rows.size();
    ASSERT_EQ(::uncompress(reinterpret_cast<Bytef*>(rows.data()), &size, reinterpret_cast<const Bytef*>(packed.data()),
                           packed.size()),
              Z_OK);
    EXPECT_EQ(size, rows.size());
}

class map_command : public testing::Test {
protected:
    ~map_command() override { std::filesystem::remove_all(folder_); }
    /// Runs `orchard map` with the words, in which F stands for the folder. Returns the exit code.
    int run_map(const std::string& words) {
        std::vector<std::string> all = absl::StrSplit(words, ' ');
        std::vector<const char*> argv = {"orchard", "map"};
        for (std::string& word : all) {
            word = word.rfind("F/", 0) == 0 ? folder_ + word.substr(1) : word;
            argv.push_back(word.c_str());
        }
        testing::internal::CaptureStdout();
        testing::internal::CaptureStderr();
        const int code = run(static_cast<int>(argv.size()), argv.data(), "unknown");
        out_ = testing::internal::GetCapturedStdout();
        error_ = testing::internal::GetCapturedStderr();
        return code;
    }
    std::string folder_ = [] {
        std::string folder = testing::TempDir() + "map_command_" + std::to_string(::getpid());
        std::filesystem::create_directory(folder);
        return folder;
    }();
    std::string out_;
    std::string error_;
    testing_support::clean_environment environment_;
};

TEST_F(map_command, draws_each_kind) {
    std::ofstream(folder_ + "/small.json") << small();
    for (const char* const kind : {"html", "svg", "png", "json"}) {
        EXPECT_EQ(run_map(std::string("--dump F/small.json -o F/map.") + kind), 0) << error_;
        EXPECT_GT(std::filesystem::file_size(folder_ + "/map." + kind), 500u);
        EXPECT_THAT(out_, HasSubstr("100 segments, 6 of them with memory"));
    }
    EXPECT_EQ(run_map("--dump F/map.json -o F/again.json"), 0) << error_;
}

TEST_F(map_command, says_what_is_wrong) {
    EXPECT_EQ(run_map("-o F/map.svg"), 2);
    EXPECT_THAT(error_, HasSubstr("give one of --dump FILE, --pid N and --example"));
    EXPECT_NE(run_map("--dump F/none.json -o F/map.svg"), 0);
    EXPECT_THAT(error_, HasSubstr("none.json: cannot be read: No such file or directory"));
    EXPECT_NE(run_map("--dump F/ -o F/map.svg"), 0);
    EXPECT_THAT(error_, HasSubstr("cannot be read: Is a directory; name a file in it"));
    std::ofstream(folder_ + "/cut.json") << small().dump().substr(0, 300);
    EXPECT_NE(run_map("--dump F/cut.json -o F/map.svg"), 0);
    EXPECT_THAT(error_, HasSubstr("cut.json: the text is no JSON"));
    EXPECT_EQ(run_map("--dump F/cut.json -o F/map.pdf"), 2);
    EXPECT_THAT(error_, HasSubstr("the name must end with .html, .svg, .png or .json"));
    EXPECT_FALSE(std::filesystem::exists(folder_ + "/map.svg"));
}

}  // namespace
}  // namespace orchard::command_line
