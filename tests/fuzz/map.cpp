// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The reader of maps of heaps, and what is drawn from a map that it accepted. An input is a file.

#include "runtime/cli/map/map_page.hpp"
#include "runtime/cli/map/map_picture.hpp"
#include "runtime/cli/map/read_map.hpp"
#include "tests/fuzz/target.hpp"

namespace orchard::fuzz {
namespace {

void try_file(std::string_view bytes) {
    const absl::StatusOr<heap_map> map = command_line::parse_map(bytes);
    if (!map.ok()) {
        expect_clear(map.status());
        expect(absl::IsDataLoss(map.status()) || absl::IsUnimplemented(map.status()),
               absl::StrCat("an error of its own: ", map.status().ToString()));
        return;
    }
    const std::string text = to_json(*map);
    const absl::StatusOr<heap_map> again = command_line::parse_map(text);
    expect(again.ok(), absl::StrCat("a map that was read cannot be read again: ", again.status().ToString()));
    expect(to_json(*again) == text, "a map changed when it was written and read");
    constexpr std::uint32_t few_segments = 1 << 14;  // a picture looks at each
    if (map->segments <= few_segments) {
        expect(command_line::map_page(*map).find(" id=\"map\">") != std::string::npos, "a page without the map");
        expect(command_line::map_svg(*map).ends_with("</svg>\n"), "a picture without an end");
        expect(!command_line::map_png(*map).empty(), "no picture");
    }
}

}  // namespace
}  // namespace orchard::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    orchard::fuzz::try_file({reinterpret_cast<const char*>(data), size});
    return 0;
}
