// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The page: a fixed head with the style, the map as JSON, the colours as JSON, and the script, which is in
/// map_script.cpp.

#include "runtime/cli/map/map_page.hpp"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "runtime/cli/map/map_colours.hpp"
#include "runtime/cli/map/map_script.hpp"
#include "uvm/geometry/size_classes.hpp"

namespace orchard::command_line {
namespace {

constexpr char head[] = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Heap map</title>
<style>
* { box-sizing: border-box; }
body { margin: 0; height: 100vh; display: flex; flex-direction: column; background: #fff; color: #222;
       font: 13px/1.4 system-ui, "DejaVu Sans", sans-serif; }
header { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 16px; padding: 6px 12px;
         border-bottom: 1px solid #ddd; }
h1 { font-size: 15px; margin: 0; }
#about { color: #6b6b6b; }
main { flex: 1; display: flex; min-height: 0; }
#place { flex: 1; position: relative; min-width: 0; }
canvas { position: absolute; inset: 0; width: 100%; height: 100%; cursor: crosshair; }
aside { width: 400px; font-size: 12px; overflow: auto; padding: 8px 12px; border-left: 1px solid #ddd; }
h2 { font-size: 13px; margin: 12px 0 4px; }
h2:first-child { margin-top: 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
td, th { padding: 1px 3px; text-align: right; font-weight: normal; white-space: nowrap; }
th { color: #6b6b6b; }
td:first-child, th:first-child { text-align: left; padding-left: 0; }
.key { display: inline-block; width: 11px; height: 11px; margin-right: 6px; border: 1px solid #0003;
       vertical-align: -1px; }
#details { min-height: 9em; white-space: pre-line; overflow-wrap: anywhere; }
#differs { color: #b3202a; }
.bar { display: inline-block; width: 60px; height: 9px; background: #e4e4e2; vertical-align: -1px; }
.bar i { display: block; height: 100%; }
#tip { position: absolute; display: none; max-width: 330px; padding: 4px 8px; background: #fffffff2; white-space: pre-line;
       border: 1px solid #999; border-radius: 3px; pointer-events: none; box-shadow: 0 1px 4px #0003; }
select, input, button { font: inherit; }
input { width: 7em; }
</style>
</head>
<body>
<header>
<h1>Heap map</h1>
<span id="about"></span>
<label>colour by <select id="mode"><option value="use">use and class</option><option value="fill">fill</option>
<option value="tier">tier</option></select></label>
<label><input type="checkbox" id="whole" style="width:auto"> addresses without memory</label>
<label>segment <input id="go" type="number" min="0"></label>
<button id="fit" title="0">fit</button>
<span style="color:#6b6b6b">wheel: zoom; drag: move; click: keep</span>
</header>
<main>
<div id="place"><canvas id="map_canvas"></canvas><div id="tip"></div></div>
<aside>
<h2>Segment</h2><div id="details">Point at a segment.</div>
<h2>Totals</h2><table id="totals"></table><p id="agrees"></p><p id="differs"></p>
<h2>Portions</h2><table id="portions"></table>
<h2>Memory</h2><table id="memory"></table>
<h2>Chunks</h2><table id="chunks"></table>
<h2>Slabs by class</h2><table id="classes"></table>
</aside>
</main>
)";

std::string hex(colour c) { return absl::StrFormat("\"#%06x\"", c); }

/// Returns the colours as a JSON object.
std::string colours_json() {
    std::string s = "{\"uses\": {";
    for (std::uint32_t i = 0; i < segment_uses; ++i) {
        const auto use = static_cast<segment_use>(i);
        absl::StrAppend(&s, i != 0 ? "," : "", "\"", std::string(name_of(use)), "\":", hex(map_colours::of(use)));
    }
    absl::StrAppend(&s, "}, \"portions\": {");
    for (std::uint32_t i = 0; i < portion_uses; ++i) {
        const auto use = static_cast<portion_use>(i);
        absl::StrAppend(&s, i != 0 ? "," : "", "\"", std::string(name_of(use)), "\":", hex(map_colours::of(use)));
    }
    absl::StrAppend(&s, "}, \"tiers\": {");
    for (std::uint32_t i = 0; i < map_tiers; ++i) {
        const auto tier = static_cast<map_tier>(i);
        absl::StrAppend(&s, i != 0 ? "," : "", "\"", std::string(name_of(tier)), "\":", hex(map_colours::of(tier)));
    }
    absl::StrAppend(&s, "}, \"classes\": [");
    for (std::uint32_t c = 0; c < class_count; ++c) {
        absl::StrAppend(&s, c != 0 ? "," : "", hex(map_colours::of_class(c)));
    }
    return absl::StrCat(s, "], \"interleaved\": ", hex(map_colours::interleaved),
                        ", \"empty\": ", hex(map_colours::of_share(0)), ", \"full\": ", hex(map_colours::of_share(1)),
                        "}");
}

/// Returns JSON for an element `script`, which would end at "</script>" within a text.
std::string within_script(const std::string& json) { return absl::StrReplaceAll(json, {{"<", "\\u003c"}}); }

}  // namespace

std::string map_page(const heap_map& map) {
    return absl::StrCat(head, "<script type=\"application/json\" id=\"map\">\n", within_script(to_json(map)),
                        "</script>\n<script type=\"application/json\" id=\"colours\">\n", colours_json(),
                        "\n</script>\n<script>\n", map_script, "</script>\n</body>\n</html>\n");
}

}  // namespace orchard::command_line
